"""The server: a socket, the guard around the application, an address to open."""

from __future__ import annotations

import ctypes
import os
import platform
import secrets
import signal
import socket
import sys
import threading
from functools import partial
from pathlib import Path

import python_multipart  # noqa: F401 - missing, it would be named only at the first upload
import uvicorn

from midfea.serve.api.app import ROUTERS, create_app
from midfea.serve.api.current import CurrentModel
from midfea.serve.api.failures import Unfailing
from midfea.serve.api.guard import Guard, in_brackets
from midfea.serve.api.transfer import MODEL_FILE
from midfea.serve.connection import TimedConnection
from midfea.serve.settings import DEFAULTS, ServeSettings
from midfea.serve.store.files import file_id
from midfea.serve.store.workspace import Workspace

LOOPBACK = ("localhost", "127.0.0.1", "::1")
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
LARGE_BLOCK_BYTES = 128 * 1024
END_SECONDS = 2.0  # for threads that are at work when the server ends


def run(
    folder: Path,
    host: str,
    port: int,
    model: Path | None = None,
    with_token: bool = False,
    settings: ServeSettings = DEFAULTS,
) -> None:
    """Serve a workspace until Ctrl-C or SIGTERM; the address is printed when it can be opened."""
    _give_back_large_blocks()
    signal.signal(signal.SIGTERM, _end)  # uvicorn ends its work first, then this has its turn
    listening = _listen(host, port)
    port = listening.getsockname()[1]
    token = secrets.token_urlsafe(16) if with_token or host not in LOOPBACK else None
    workspace = Workspace(folder)
    try:
        workspace.sweep()
        current = CurrentModel(workspace, settings.trial_seconds)
        if model is not None:
            _open(current, model)
        guard = Guard(create_app(workspace, current), ROUTERS, host, port, token, settings)
        name = in_brackets(host if host not in ("0.0.0.0", "::") else socket.gethostname())
        print(f"Workspace: {workspace.root}")
        print(f"Open http://{name}:{port}/{f'?token={token}' if token else ''}", flush=True)
        uvicorn.Server(_config(Unfailing(guard), settings)).run([listening])
    finally:
        workspace.close()


def _config(app: Unfailing, settings: ServeSettings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=partial(TimedConnection, settings=settings),
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=3,
    )


def _end(*_: object) -> None:
    """End with status 0, also if a thread is still at work: nothing that it does is accepted yet."""
    late = threading.Timer(END_SECONDS, os._exit, (0,))
    late.daemon = True
    late.start()
    sys.exit(0)


def _open(current: CurrentModel, path: Path) -> None:
    """Open a model from the command line; it never replaces one that was trained here."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such model file")
    present = current.get()
    if present is not None and present.id != file_id(path) and not present.record.opened:
        raise ValueError(
            f"{current.workspace.root} has a model of its own: choose another --workspace, or open "
            f"{path.name} in the page"
        )
    with path.open("rb") as file:
        current.open(path.name, file, MODEL_FILE.max_bytes)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(2048)  # from now on a browser waits instead of failing
    except OSError as error:
        raise OSError(
            f"cannot listen on {host}, port {port}: {error.strerror}; choose another with --port"
        ) from None
    return listening


def _give_back_large_blocks() -> None:
    """Let glibc map each large block by itself, and unmap it when it is freed.

    Left alone, it learns from the first freed image that blocks of that size are usual, and takes them
    from its heaps from then on, which grow with every gap that small objects leave between them.
    """
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
        libc.mallopt(M_TRIM_THRESHOLD, LARGE_BLOCK_BYTES)
