"""The routes: what the page can ask for, as JSON. The work itself is done elsewhere."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import quote

from fastapi import FastAPI, File, Query, UploadFile
from fastapi.responses import HTMLResponse, Response, StreamingResponse
from pydantic import BaseModel, Field

from midfea import __version__
from midfea.serve.api import answering, guard, inspecting, take_away
from midfea.serve.api.api_page import api_page
from midfea.serve.api.current import CurrentModel
from midfea.serve.api.failures import answer_failures
from midfea.serve.api.opening import open_images
from midfea.serve.api.page_files import PageFiles
from midfea.serve.api.state import State
from midfea.serve.errors import Refused
from midfea.serve.store import incoming, names
from midfea.serve.store.index import StoredImage
from midfea.serve.store.workspace import Workspace
from midfea.serve.training.job import Settings
from midfea.serve.training.trainer import Trainer

FOR_EVER = "private, max-age=31536000, immutable"
CHUNK = 1 << 20
# Threads for each kind of work, so that none has to wait for another kind.
THREADS = {"look": 4, "take": 4, "answer": 2, "make": 1}

T = TypeVar("T")
ClassQuery = Annotated[str, Query(alias="class", description="the name of a class")]
Offset = Annotated[int, Query(ge=0)]
Limit = Annotated[int, Query(ge=1, le=1000)]


class ClassName(BaseModel):
    """The name of a class."""

    name: str


class Label(BaseModel):
    """The class that an image shall have."""

    label: str = Field(alias="class")


class Training(BaseModel):
    """How to train. `neurons`: of a neuron-selectivity layer, 0 for none."""

    preset: Literal["fast", "best", "paper"] = "fast"
    neurons: Annotated[int, Field(ge=0, le=1000)] = 0
    finetune: bool = False


def create_app(workspace: Workspace) -> FastAPI:
    """The application for one workspace, without the guard."""
    current = CurrentModel(workspace)
    pools = {kind: ThreadPoolExecutor(n, f"midfea-{kind}") for kind, n in THREADS.items()}

    def trained() -> None:
        workspace.changed()
        with suppress(RuntimeError):  # the server is about to end
            pools["answer"].submit(current.warm_up)

    trainer = Trainer(workspace, trained)
    state = State(workspace, current, trainer)
    seen = answering.Seen(workspace, current)

    async def aside(kind: str, work: Callable[..., T], *arguments: Any) -> T:
        """In a thread, so that others are answered meanwhile."""
        return await asyncio.get_running_loop().run_in_executor(pools[kind], work, *arguments)

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        pools["answer"].submit(current.warm_up)
        yield
        trainer.close()
        for pool in pools.values():
            pool.shutdown(wait=False, cancel_futures=True)

    app = FastAPI(
        title="midfea serve",
        version=__version__,
        description="Teach a classifier: everything that the page does.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=running,
    )
    answer_failures(app)

    @app.get("/api/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(api_page(app.openapi()))

    @app.get("/api/state", tags=["state"])
    async def get_state() -> dict[str, Any]:
        """Everything that the page shows at the top: classes, model, training, limits."""
        return await aside("look", state.shown)

    # -- teach ------------------------------------------------------------------------------------

    @app.post("/api/classes", status_code=201, tags=["teach"])
    async def add_class(asked: ClassName) -> dict[str, Any]:
        """Make a class."""
        return {"name": await aside("take", workspace.add_class, asked.name), "images": 0}

    @app.patch("/api/classes/{name:path}", tags=["teach"])
    async def rename_class(name: str, asked: ClassName) -> dict[str, Any]:
        """Give a class another name."""
        return {"name": await aside("take", workspace.rename_class, name, asked.name)}

    @app.delete("/api/classes/{name:path}", tags=["teach"])
    async def remove_class(name: str, with_images: bool = False) -> dict[str, Any]:
        """Remove a class, with its images only if asked for."""
        await aside("take", workspace.remove_class, name, with_images)
        return {"removed": name}

    @app.get("/api/images", tags=["teach"])
    async def list_images(label: ClassQuery, offset: Offset = 0, limit: Limit = 100) -> dict[str, Any]:
        """A part of a class's images, the newest first."""

        def look() -> dict[str, Any]:
            workspace.refresh()
            found = workspace.images(label)
            return {"total": len(found), "images": [_shown(i) for i in found[offset : offset + limit]]}

        return await aside("look", look)

    @app.post("/api/images", tags=["teach"])
    async def add_images(
        label: ClassQuery, files: Annotated[list[UploadFile], File()]
    ) -> dict[str, Any]:
        """Put images into a class, which is made if it is missing. Each is accepted or refused alone."""
        names.class_name(label)  # else every file would be refused for it
        accepted, refused = [], []
        for file in files:
            name = file.filename or ""
            try:
                accepted.append(_shown(await aside("take", workspace.add, label, name, file.file)))
            except Refused as error:
                refused.append({"name": name, "error": str(error)})
            finally:
                await file.close()
        return {"accepted": accepted, "refused": refused}

    @app.patch("/api/images/{id}", tags=["teach"])
    async def move_image(id: str, asked: Label) -> dict[str, Any]:
        """Give an image another label."""
        return _shown(await aside("take", workspace.move, id, asked.label))

    @app.delete("/api/images/{id}", tags=["teach"])
    async def remove_image(id: str) -> dict[str, Any]:
        """Remove an image."""
        await aside("take", workspace.remove, id)
        return {"removed": id}

    @app.get("/api/images/{id}/file", tags=["teach"])
    async def image_file(id: str) -> Response:
        """The image itself."""
        image = workspace.find(id)
        sent = await aside("look", _file, workspace.path(image), _image_type(image.name))
        sent.headers["cache-control"] = FOR_EVER
        return sent

    @app.get("/api/images/{id}/thumbnail", tags=["teach"])
    async def image_thumbnail(id: str) -> Response:
        """A small copy, WebP."""
        content = await aside("look", workspace.thumbnail, id)
        return Response(content, media_type="image/webp", headers={"cache-control": FOR_EVER})

    @app.post("/api/train", status_code=202, tags=["teach"])
    async def train(asked: Training) -> dict[str, Any]:
        """Begin to train on all images. How it goes is told by the state's `job`."""
        settings = Settings(asked.preset, asked.neurons, asked.finetune)
        return (await aside("make", trainer.start, settings)).shown()

    @app.delete("/api/train", tags=["teach"])
    async def cancel() -> dict[str, Any]:
        """Cancel the training; the model stays as it was."""
        return (await aside("take", trainer.cancel)).shown()

    # -- classify ---------------------------------------------------------------------------------

    async def image_of(file: UploadFile | None, id: str | None) -> tuple[Any, int, int]:
        if (file is None) == (id is None):
            raise Refused("send an image as “file”, or name one of the workspace by its id")
        if file is None:
            return await aside("answer", seen.kept, id)
        try:
            return await aside("answer", seen.sent, file.file)
        finally:
            await file.close()

    @app.post("/api/classify", tags=["classify"])
    async def classify(
        file: Annotated[UploadFile | None, File()] = None,
        id: str | None = None,
        explain: bool = False,
    ) -> dict[str, Any]:
        """The model's answer for an image that is sent, or for one of the workspace."""
        current.need()
        image, width, height = await image_of(file, id)
        found = await aside(
            "answer", current.use, lambda model: answering.classify(model, image, explain)
        )
        return found | {"width": width, "height": height}

    @app.post("/api/explain", tags=["classify"])
    async def explain(
        file: Annotated[UploadFile | None, File()] = None,
        id: str | None = None,
        label: Annotated[str | None, Query(alias="class")] = None,
    ) -> dict[str, Any]:
        """Why: evidence, words, neurons, stages and similar images for a class, or for the answer."""
        current.need()
        image, width, height = await image_of(file, id)
        found = await aside(
            "answer",
            current.use,
            lambda model: answering.explain(workspace, model, image, label),
        )
        return found | {"width": width, "height": height}

    # -- inspect ----------------------------------------------------------------------------------

    @app.get("/api/inspect", tags=["inspect"])
    async def inspect() -> dict[str, Any]:
        """What was held out in training: confusion, suspicious labels, learning curve; filters."""

        def look() -> dict[str, Any]:
            workspace.refresh()
            model = current.need()
            return inspecting.overview(workspace, model, inspecting.held_out(workspace, model))

        return await aside("look", look)

    @app.get("/api/inspect/cell", tags=["inspect"])
    async def inspect_cell(
        label: ClassQuery, answer: str, offset: Offset = 0, limit: Limit = 100
    ) -> dict[str, Any]:
        """The images behind a cell of the confusion matrix."""

        def look() -> dict[str, Any]:
            workspace.refresh()
            answers = inspecting.held_out(workspace, current.need())
            return inspecting.cell(workspace, answers, label, answer, offset, limit)

        return await aside("look", look)

    # -- take away, open --------------------------------------------------------------------------

    @app.get("/api/download/{what}", tags=["take away"])
    async def download(what: Literal["model", "onnx", "report", "images", "labels"]) -> Response:
        """The model, the ONNX file, the report, the images by class (.zip) or the labels (.csv)."""
        name = workspace.root.name
        if what == "images":
            packed = StreamingResponse(take_away.zipped(workspace), media_type="application/zip")
            return _attached(packed, f"{name}.zip")
        if what == "labels":
            table = await aside("look", take_away.labels_table, workspace)
            return _attached(Response(table, media_type="text/csv; charset=utf-8"), f"{name}.csv")
        current.need()
        if what == "model":
            sent = await aside("look", _file, workspace.model_file, "application/octet-stream")
            return _attached(sent, f"{name}.midfea")
        made = workspace.incoming.new()
        try:
            await aside("make", take_away.make, what, workspace, made)
            kind = "text/html; charset=utf-8" if what == "report" else "application/octet-stream"
            sent = await aside("look", _file, made, kind)
        finally:
            made.unlink(missing_ok=True)
        return _attached(sent, f"{name}.{'html' if what == 'report' else 'onnx'}")

    @app.post("/api/open/model", tags=["take away"])
    async def open_model(file: Annotated[UploadFile, File()]) -> dict[str, Any]:
        """Take a model from a .midfea file in place of the present one."""
        most = guard.LARGER["/api/open/model"]
        await aside("make", current.open, file.filename or "", file.file, most)
        return await aside("look", state.shown)

    @app.post("/api/open/images", tags=["take away"])
    async def open_tree(file: Annotated[UploadFile, File()]) -> dict[str, Any]:
        """Take in the images of a .zip with one folder for each class."""
        accepted, refused = await aside("make", open_images, workspace, file.file)
        return {"accepted": [_shown(image) for image in accepted], "refused": refused}

    app.mount("/", PageFiles())
    return app


def _shown(image: StoredImage) -> dict[str, Any]:
    return {
        "id": image.id,
        "class": image.label,
        "name": image.name,
        "width": image.width,
        "height": image.height,
    }


def _image_type(name: str) -> str:
    ending = Path(name).suffix.lower()
    kind = next((k for k, endings in incoming.ENDINGS.items() if ending in endings), "octet-stream")
    return f"image/{kind.lower()}"


def _file(path: Path, kind: str) -> StreamingResponse:
    """A file as it is now, whatever takes its place while it is sent."""
    file = path.open("rb")

    def parts() -> Iterator[bytes]:
        with file:
            while part := file.read(CHUNK):
                yield part

    size = os.fstat(file.fileno()).st_size
    return StreamingResponse(parts(), media_type=kind, headers={"content-length": str(size)})


def _attached(response: Response, name: str) -> Response:
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_. ") else "_" for c in name)
    response.headers["content-disposition"] = (
        f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name)}"
    )
    return response
