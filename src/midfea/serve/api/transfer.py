"""/api/download, /api/open: files to take away, and to open again."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, File, UploadFile
from fastapi.responses import Response, StreamingResponse

from midfea.serve.api import downloads
from midfea.serve.api.body import MEGABYTE, form_body
from midfea.serve.api.downloads import file_response
from midfea.serve.api.services import Services, ServicesDep
from midfea.serve.api.teach import image_json
from midfea.serve.api.zip_upload import add_zip

router = APIRouter(tags=["take away"])
MODEL_FILE = form_body(512 * MEGABYTE)
ZIP_FILE = form_body(2000 * MEGABYTE)
BINARY, HTML = "application/octet-stream", "text/html; charset=utf-8"

Kind = Literal["model", "onnx", "report", "images", "labels"]


@router.get("/api/download/{kind}")
async def download(services: ServicesDep, kind: Kind) -> Response:
    """The model, the ONNX file, the report, the images by class (.zip) or the labels (.csv)."""
    name = services.workspace.root.name
    if kind == "images":
        chunks = downloads.zip_chunks(services.workspace)
        return _as_attachment(StreamingResponse(chunks, media_type="application/zip"), f"{name}.zip")
    if kind == "labels":
        table = await services.run("read", downloads.labels_table, services.workspace)
        return _as_attachment(Response(table, media_type="text/csv; charset=utf-8"), f"{name}.csv")
    if kind == "model":
        return _as_attachment(await services.run("read", _model_file, services), f"{name}.midfea")
    response = await services.run("make", _made_file, services, kind)
    return _as_attachment(response, f"{name}.{'html' if kind == 'report' else 'onnx'}")


@router.post("/api/open/model")
@MODEL_FILE
async def open_model(services: ServicesDep, file: Annotated[UploadFile, File()]) -> dict[str, Any]:
    """Replace the model by a .midfea file."""
    name = file.filename or ""
    opened = services.current.open
    loaded = await services.run("make", opened, name, file.file, MODEL_FILE.max_bytes)
    return {"name": name, "classes": [str(label) for label in loaded.model.classes_]}


@router.post("/api/open/images")
@ZIP_FILE
async def open_images(services: ServicesDep, file: Annotated[UploadFile, File()]) -> dict[str, Any]:
    """Add the images of a .zip with one folder for each class."""
    accepted, refused = await services.run("make", add_zip, services.workspace.changes, file.file)
    return {"accepted": [image_json(image) for image in accepted], "refused": refused}


def _model_file(services: Services) -> Response:
    services.current.need()
    return file_response(services.workspace.model_file.path, BINARY)


def _made_file(services: Services, kind: Literal["onnx", "report"]) -> Response:
    services.current.need()
    path = services.workspace.incoming.new()
    try:
        downloads.make(kind, services.workspace, path)
        return file_response(path, HTML if kind == "report" else BINARY)
    finally:
        path.unlink(missing_ok=True)


def _as_attachment(response: Response, name: str) -> Response:
    """The response, to be saved under this name."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_. ") else "_" for c in name)
    response.headers["content-disposition"] = (
        f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name)}"
    )
    return response
