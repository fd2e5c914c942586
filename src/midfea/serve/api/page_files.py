"""The page's own files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi.staticfiles import StaticFiles

FOLDER = Path(__file__).parents[1] / "page"


class PageFiles(StaticFiles):
    """Asked for each time, so that a newer midfea shows its own page; unchanged ones are not sent."""

    def __init__(self) -> None:
        super().__init__(directory=FOLDER, html=True)

    def file_response(self, *arguments: Any, **more: Any) -> Any:
        """With a header more."""
        response = super().file_response(*arguments, **more)
        response.headers["cache-control"] = "no-cache"
        return response
