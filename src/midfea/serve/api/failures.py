"""Every failure as {"error": what was wrong and what to do}."""

from __future__ import annotations

import errno
import traceback
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from midfea.serve.errors import Clash, Missing, Refused

MESSAGES = {
    400: "the request cannot be understood: it was cut short, or is not what it says it is",
    404: "there is nothing at this address",
    405: "this cannot be done at this address",
}
NOT_WRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)


def failure(status: int, message: str) -> JSONResponse:
    """The answer to a request that failed."""
    return JSONResponse({"error": message}, status)


def answer_failures(app: FastAPI) -> None:
    """Let the application answer failures in this form."""

    async def answer(_: Any, error: Exception) -> JSONResponse:
        status, message = _status_and_message(error)
        if status == 500 and isinstance(error, OSError):  # others go on to `Unfailing`
            traceback.print_exception(error)
        return failure(status, message)

    for kind in (Refused, HTTPException, RequestValidationError, OSError, Exception):
        app.add_exception_handler(kind, answer)


class Unfailing:
    """ASGI middleware around all others: whatever goes wrong is told, and noted once on stderr."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application answer, or say that it could not."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answered = False

        async def sending(message: Message) -> None:
            nonlocal answered
            answered = True
            await send(message)

        try:
            await self.app(scope, receive, sending)
        except Exception as error:
            traceback.print_exception(error)
            if not answered:
                await failure(*_status_and_message(error))(scope, receive, send)


def _status_and_message(error: Any) -> tuple[int, str]:
    match error:
        case Refused():
            status = 409 if isinstance(error, Clash) else 404 if isinstance(error, Missing) else 422
            return status, str(error)
        case HTTPException(detail=detail) if str(detail).startswith("Too many"):  # parts of a form
            return error.status_code, f"{detail} Send fewer at once."
        case HTTPException():
            return error.status_code, MESSAGES.get(error.status_code, str(error.detail))
        case RequestValidationError():
            problems = []
            for problem in error.errors():
                where = ".".join(str(part) for part in problem["loc"][1:])
                problems.append(f"{where}: {problem['msg']}" if where else str(problem["msg"]))
            return 422, "; ".join(problems)[:500] or MESSAGES[400]
        case FileNotFoundError():
            return 404, "the file is gone: it was moved or removed meanwhile"
        case OSError(errno=number) if number in NOT_WRITABLE:
            return 507, f"the workspace cannot be written: {error.strerror}"
        case OSError():
            return 500, f"the workspace cannot be read or written: {error.strerror or error}"
    return 500, f"something went wrong that should not ({type(error).__name__}): try again"
