"""Files as answers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from fastapi.responses import Response, StreamingResponse

CHUNK_BYTES = 1 << 20


def file_response(path: Path, media_type: str) -> StreamingResponse:
    """A file as it is now, whatever replaces it while it is sent."""
    file = path.open("rb")

    def chunks() -> Iterator[bytes]:
        with file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk

    size = os.fstat(file.fileno()).st_size
    return StreamingResponse(chunks(), media_type=media_type, headers={"content-length": str(size)})


def as_attachment(response: Response, name: str) -> Response:
    """The response, to be saved under this name."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_. ") else "_" for c in name)
    response.headers["content-disposition"] = (
        f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name)}"
    )
    return response
