"""The body of a request while it arrives: counted, timed, and refused if it is too large or too slow."""

from __future__ import annotations

import asyncio
import time

from starlette.types import Message, Receive, Scope, Send

from midfea.serve.api.body import MEGABYTE
from midfea.serve.api.failures import failure
from midfea.serve.settings import ServeSettings

# A browser shows an answer only after it has sent the whole body, so a refused body is read up to here.
MAX_DRAINED_BYTES, MAX_DRAIN_SECONDS = 4000 * MEGABYTE, 60.0
GONE: Message = {"type": "http.disconnect"}
TOO_SLOW = "the request came too slowly: send it again over a faster connection"


class Arriving:
    """A request between the server and the application.

    `refusal` is the status and the message for a body that is too large or too slow: then the
    application finds the client gone, and its answer is not sent.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, settings: ServeSettings) -> None:
        self._scope, self._receive, self._send, self._settings = scope, receive, send, settings
        self.max_bytes = 0
        self.refusal: tuple[int, str] | None = None
        self._size, self._waited_seconds = 0, 0.0
        self._whole = self._answered = False

    async def receive(self) -> Message:
        """The next part, for the application."""
        message = GONE if self.refusal else await self._next()
        if self._size > self.max_bytes and self.refusal is None:
            self.refuse_size()
        return GONE if self.refusal else message

    async def send(self, message: Message) -> None:
        """The application's answer, unless it has seen half a body only."""
        if self.refusal is None:
            self._answered = True
            await self._send(message)

    def refuse_size(self) -> None:
        """Too large."""
        large = self.max_bytes >= MEGABYTE
        size = f"{self.max_bytes // MEGABYTE} MB" if large else f"{self.max_bytes // 1000} kB"
        self.refusal = 413, f"too much at once: at most {size} in one request"

    async def answer_refusal(self) -> None:
        """Read the rest, and say why the body is refused."""
        if self.refusal is None or self._answered:
            return
        await self._drain()
        answer = failure(*self.refusal)
        if not self._whole:
            answer.headers["connection"] = "close"
        await answer(self._scope, self._receive, self._send)

    async def _next(self) -> Message:
        if self._whole:  # whoever asks now waits for the client to go
            return await self._receive()
        begun = time.monotonic()
        try:
            message = await asyncio.wait_for(self._receive(), self._settings.stall_seconds)
        except TimeoutError:
            self.refusal = 408, TOO_SLOW
            return GONE
        self._waited_seconds += time.monotonic() - begun
        self._size += len(message.get("body", b""))
        self._whole = not message.get("more_body", False)
        if not self._whole and self._is_slow():
            self.refusal = 408, TOO_SLOW
        return message

    def _is_slow(self) -> bool:
        """On average, once it has been waited for; the time in which nobody read it does not count."""
        expected = self._settings.min_bytes_per_second * self._waited_seconds
        return self._waited_seconds > self._settings.stall_seconds and self._size < expected

    async def _drain(self) -> None:
        end = time.monotonic() + MAX_DRAIN_SECONDS
        while not self._whole and self._size < MAX_DRAINED_BYTES and time.monotonic() < end:
            if self.refusal is not None and self.refusal[0] == 408:
                return
            await self._next()
