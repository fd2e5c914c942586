"""The routes: what the page can ask for, as JSON. The work itself is done elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, TypeVar

from fastapi import FastAPI, File, Query, UploadFile
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from midfea import __version__
from midfea.web import guard, incoming, names
from midfea.web.errors import Clash, Missing, Refused
from midfea.web.index import StoredImage
from midfea.web.workspace import Workspace

PAGE = Path(__file__).parent / "page"
THRESHOLD = 0.6  # below it an answer is unsure
N_WORKERS = 8  # threads for requests; few of them decode at once
FOR_EVER = "private, max-age=31536000, immutable"

T = TypeVar("T")


class ClassName(BaseModel):
    """The name of a class."""

    name: str


class Label(BaseModel):
    """The class that an image shall have."""

    label: str = Field(alias="class")


def create_app(workspace: Workspace) -> FastAPI:
    """The application for one workspace, without the guard."""
    app = FastAPI(
        title="midfea serve", version=__version__, docs_url=None, redoc_url=None,
        openapi_url="/api/openapi.json",
    )  # fmt: skip
    pool = ThreadPoolExecutor(N_WORKERS, thread_name_prefix="midfea")
    _answer_errors(app)

    async def aside(work: Callable[..., T], *arguments: Any) -> T:
        """In a thread, so that others are answered meanwhile."""
        return await asyncio.get_running_loop().run_in_executor(pool, work, *arguments)

    @app.get("/api/state")
    async def state() -> dict[str, Any]:
        """Everything that the page shows at the top: classes, model, training, limits."""

        def look() -> dict[str, Any]:
            workspace.refresh()
            classes = workspace.classes()
            return {
                "version": workspace.version,
                "classes": [count._asdict() for count in classes],
                "images": sum(count.images for count in classes),
                "model": None,
                "job": None,
                "workspace": str(workspace.root),
                "limits": {
                    "file_bytes": incoming.MOST_BYTES,
                    "request_bytes": guard.FORM_BYTES,
                    "zip_bytes": guard.LARGER["/api/open/images"],
                    "model_bytes": guard.LARGER["/api/open/model"],
                    "pixels": incoming.MOST_PIXELS,
                    "name_characters": names.MOST_CHARACTERS,
                },
                "threshold": THRESHOLD,
            }

        return await aside(look)

    @app.post("/api/classes", status_code=201)
    async def add_class(asked: ClassName) -> dict[str, Any]:
        """Make a class."""
        return {"name": await aside(workspace.add_class, asked.name), "images": 0}

    @app.patch("/api/classes/{name:path}")
    async def rename_class(name: str, asked: ClassName) -> dict[str, Any]:
        """Give a class another name."""
        return {"name": await aside(workspace.rename_class, name, asked.name)}

    @app.delete("/api/classes/{name:path}")
    async def remove_class(name: str, with_images: bool = False) -> dict[str, Any]:
        """Remove a class, with its images only if asked for."""
        await aside(workspace.remove_class, name, with_images)
        return {"removed": name}

    @app.get("/api/images")
    async def images(
        label: Annotated[str, Query(alias="class")],
        offset: Annotated[int, Query(ge=0)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> dict[str, Any]:
        """A part of a class's images, the newest first."""

        def look() -> dict[str, Any]:
            workspace.refresh()
            found = workspace.images(label)
            return {"total": len(found), "images": [_shown(i) for i in found[offset : offset + limit]]}

        return await aside(look)

    @app.post("/api/images")
    async def upload(
        label: Annotated[str, Query(alias="class")], files: Annotated[list[UploadFile], File()]
    ) -> dict[str, Any]:
        """Put images into a class, which is made if it is missing. Each is accepted or refused alone."""
        await aside(names.class_name, label)  # else every file would be refused for it
        accepted, refused = [], []
        for file in files:
            name, stream = file.filename or "", file.file
            try:
                accepted.append(_shown(await aside(workspace.add, label, name, stream)))
            except Refused as error:
                refused.append({"name": name, "error": str(error)})
            finally:
                await file.close()
        return {"accepted": accepted, "refused": refused}

    @app.patch("/api/images/{id}")
    async def move_image(id: str, asked: Label) -> dict[str, Any]:
        """Give an image another label."""
        return _shown(await aside(workspace.move, id, asked.label))

    @app.delete("/api/images/{id}")
    async def remove_image(id: str) -> dict[str, Any]:
        """Remove an image."""
        await aside(workspace.remove, id)
        return {"removed": id}

    @app.get("/api/images/{id}/file")
    async def image_file(id: str) -> FileResponse:
        """The image itself."""
        path = workspace.path(workspace.find(id))
        return FileResponse(path, headers={"cache-control": FOR_EVER})

    @app.get("/api/images/{id}/thumbnail")
    async def image_thumbnail(id: str) -> Response:
        """A small copy."""
        content = await aside(workspace.thumbnail, id)
        return Response(content, media_type="image/webp", headers={"cache-control": FOR_EVER})

    app.mount("/", StaticFiles(directory=PAGE, html=True, check_dir=False))
    return app


def _shown(image: StoredImage) -> dict[str, Any]:
    return {
        "id": image.id,
        "class": image.label,
        "name": image.name,
        "width": image.width,
        "height": image.height,
    }


def _answer_errors(app: FastAPI) -> None:
    """Every error as {"error": what was wrong and what to do}."""

    def answer(status: int, message: str) -> JSONResponse:
        return JSONResponse({"error": message}, status)

    @app.exception_handler(Refused)
    async def refused(_: Any, error: Refused) -> JSONResponse:
        status = 409 if isinstance(error, Clash) else 404 if isinstance(error, Missing) else 422
        return answer(status, str(error))

    @app.exception_handler(HTTPException)
    async def failed(_: Any, error: HTTPException) -> JSONResponse:
        said = {404: "there is nothing at this address", 405: "this cannot be done at this address"}
        return answer(error.status_code, said.get(error.status_code, str(error.detail)))

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Any, error: RequestValidationError) -> JSONResponse:
        problems = [f"{'.'.join(str(p) for p in e['loc'][1:])}: {e['msg']}" for e in error.errors()]
        return answer(422, "; ".join(problems)[:500] or "the request cannot be understood")

    @app.exception_handler(OSError)
    async def disk(_: Any, error: OSError) -> JSONResponse:
        return answer(507, f"the workspace cannot be written: {error.strerror or error}")
