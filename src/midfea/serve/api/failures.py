"""Every failure as {"error": what was wrong and what to do}."""

from __future__ import annotations

import errno
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

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

    @app.exception_handler(Refused)
    async def refused(_: Any, error: Refused) -> JSONResponse:
        status = 409 if isinstance(error, Clash) else 404 if isinstance(error, Missing) else 422
        return failure(status, str(error))

    @app.exception_handler(HTTPException)
    async def failed(_: Any, error: HTTPException) -> JSONResponse:
        message = MESSAGES.get(error.status_code, str(error.detail))
        if str(error.detail).startswith("Too many"):  # files or fields of one form
            message = f"{error.detail} Send fewer at once."
        return failure(error.status_code, message)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Any, error: RequestValidationError) -> JSONResponse:
        problems = []
        for problem in error.errors():
            where = ".".join(str(part) for part in problem["loc"][1:])
            problems.append(f"{where}: {problem['msg']}" if where else str(problem["msg"]))
        return failure(422, "; ".join(problems)[:500] or MESSAGES[400])

    @app.exception_handler(OSError)
    async def disk(_: Any, error: OSError) -> JSONResponse:
        if isinstance(error, FileNotFoundError):
            return failure(404, "the file is gone: it was moved or removed meanwhile")
        if error.errno in NOT_WRITABLE:
            return failure(507, f"the workspace cannot be written: {error.strerror}")
        return failure(500, f"the workspace cannot be read or written: {error.strerror or error}")

    @app.exception_handler(Exception)
    async def unexpected(_: Any, error: Exception) -> JSONResponse:
        return failure(500, f"something went wrong that should not ({type(error).__name__}): try again")
