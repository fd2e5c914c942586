"""The server's application without a socket: requests of any bytes, their status and body."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import scratch
from midfea.serve.api.app import ROUTERS, create_app
from midfea.serve.api.guard import Guard
from midfea.serve.settings import ServeSettings
from midfea.serve.store.workspace import Workspace

HOST = b"127.0.0.1:8000"


@dataclass
class Request:
    """What is sent."""

    method: str
    path: str
    query: bytes = b""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""


class Server:
    """One workspace, and the application with its guard."""

    def __init__(self, folder: Path) -> None:
        self.workspace = Workspace(folder)
        self._app = create_app(self.workspace)
        self._guard = Guard(self._app, ROUTERS, "127.0.0.1", 8000, None, ServeSettings())
        self._loop = asyncio.new_event_loop()

    def ask(self, request: Request) -> tuple[int, bytes]:
        """Status and body of the answer; an error that nobody has answered is raised."""
        return self._loop.run_until_complete(self._ask(request))

    async def _ask(self, request: Request) -> tuple[int, bytes]:
        status, parts, sent = 0, [], False

        async def receive() -> dict[str, Any]:
            nonlocal sent
            if sent:
                return {"type": "http.disconnect"}
            sent = True
            return {"type": "http.request", "body": request.body, "more_body": False}

        async def send(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)
            parts.append(message.get("body", b""))

        await self._guard(_scope(request), receive, send)  # after a 500 starlette raises the error again
        return status, b"".join(parts)

    def close(self) -> None:
        """End the threads."""
        services = self._app.state.services
        services.close()
        services.current.loader.shutdown(wait=True)
        self._loop.close()
        self.workspace.close()


def _scope(request: Request) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": request.path,
        "raw_path": request.path.encode("utf-8", "replace"),
        "query_string": request.query,
        "root_path": "",
        "headers": request.headers,
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 8000),
    }


@contextmanager
def serving(template: Path) -> Iterator[Server]:
    """A server on a fresh copy of a workspace."""
    folder = scratch.folder() / "workspace"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(template, folder)
    server = Server(folder)
    try:
        yield server
    finally:
        server.close()


def form(name: bytes, filename: bytes, content: bytes) -> tuple[bytes, bytes]:
    """The content type and the body of a form with one file."""
    head = b'--B\r\nContent-Disposition: form-data; name="%s"; filename="%s"\r\n' % (name, filename)
    kind = b"Content-Type: application/octet-stream\r\n\r\n"
    return b"multipart/form-data; boundary=B", head + kind + content + b"\r\n--B--\r\n"
