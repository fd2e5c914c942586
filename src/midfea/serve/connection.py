"""Connections that end when the other side keeps the server waiting."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from midfea.serve.settings import ServeSettings


class TimedConnection(H11Protocol):
    """uvicorn waits for ever for the rest of a request's head, and for an answer to be taken."""

    def __init__(self, *, settings: ServeSettings, **more: Any) -> None:
        super().__init__(**more)
        self._settings = settings
        self._head_timer: asyncio.TimerHandle | None = None
        self._answer_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """A head is expected from now on."""
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """With the end of a head begins a cycle of request and answer."""
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            _stop(self._head_timer)

    def on_response_complete(self) -> None:
        """The next head is expected, unless it has come already."""
        before = self.cycle
        super().on_response_complete()
        if self.cycle is before:
            self._expect_head()

    def pause_writing(self) -> None:
        """Much of an answer waits to be taken."""
        super().pause_writing()
        self._answer_timer = self.loop.call_later(self._settings.answer_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """It was taken."""
        super().resume_writing()
        _stop(self._answer_timer)

    def connection_lost(self, error: Exception | None) -> None:
        """Nothing is expected any more."""
        _stop(self._head_timer)
        _stop(self._answer_timer)
        super().connection_lost(error)

    def _expect_head(self) -> None:
        _stop(self._head_timer)
        self._head_timer = self.loop.call_later(self._settings.head_seconds, self._end)

    def _end(self) -> None:
        if self.transport.get_write_buffer_size():  # the end of the last answer is still on its way
            self._head_timer = self.loop.call_later(self._settings.answer_seconds, self.transport.abort)
        else:
            self.transport.abort()


def _stop(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
