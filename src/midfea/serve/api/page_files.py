"""The page's own files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi.staticfiles import StaticFiles

FOLDER = Path(__file__).parents[1] / "page"


class PageFiles(StaticFiles):
    """The browser asks for them each time, so that a newer midfea shows its own page."""

    def __init__(self) -> None:
        super().__init__(directory=FOLDER, packages=[("midfea.view", "static")], html=True)

    def file_response(self, *arguments: Any, **more: Any) -> Any:
        """The file, with a header that makes the browser ask again."""
        response = super().file_response(*arguments, **more)
        response.headers["cache-control"] = "no-cache"
        return response
