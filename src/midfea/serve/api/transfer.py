"""/api/download, /api/open: files to take away, and to open again."""

from __future__ import annotations

import zipfile
from pathlib import PurePosixPath
from typing import IO, Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, File, UploadFile
from fastapi.responses import Response, StreamingResponse

from midfea.serve.api import downloads
from midfea.serve.api.body import MEGABYTE, form_body
from midfea.serve.api.downloads import FileResponse
from midfea.serve.api.services import Services, ServicesDep
from midfea.serve.api.teach import image_json
from midfea.serve.errors import Refused
from midfea.serve.store.changes import Changes
from midfea.serve.store.images import StoredImage
from midfea.serve.store.names import quoted

router = APIRouter(tags=["take away"])
MODEL_FILE = form_body(512 * MEGABYTE)
ZIP_FILE = form_body(2000 * MEGABYTE)
MAX_ENTRIES = 100_000
MAX_LIST_BYTES = 20_000_000  # of the names and sizes of all entries
MAX_UNPACKED_BYTES = 8_000_000_000
MAX_EXPANSION = 100  # unpacked size / packed size: images hardly shrink, so more is an attack
MIN_CHECKED_BYTES = 1_000_000  # smaller entries may expand by any factor
MAX_REFUSED = 100  # entries refused before the first image: the rest is not read
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
    loaded = await services.run("open", opened, name, file.file, MODEL_FILE.max_bytes)
    return {"name": name, "classes": [str(label) for label in loaded.model.classes_]}


@router.post("/api/open/images")
@ZIP_FILE
async def open_images(services: ServicesDep, file: Annotated[UploadFile, File()]) -> dict[str, Any]:
    """Add the images of a .zip with one folder for each class."""
    accepted, refused = await services.run("open", _add_zip, services.workspace.changes, file.file)
    return {"accepted": [image_json(image) for image in accepted], "refused": refused}


def _model_file(services: Services) -> Response:
    services.current.need()
    return FileResponse(services.workspace.model_file.path, BINARY)


def _made_file(services: Services, kind: Literal["onnx", "report"]) -> Response:
    services.current.need()
    path = services.workspace.incoming.new()
    try:
        downloads.make(kind, services.workspace, path)
        return FileResponse(path, HTML if kind == "report" else BINARY)
    finally:
        path.unlink(missing_ok=True)


def _as_attachment(response: Response, name: str) -> Response:
    """The response, to be saved under this name."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_. ") else "_" for c in name)
    response.headers["content-disposition"] = (
        f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name)}"
    )
    return response


def _add_zip(changes: Changes, stream: IO[bytes]) -> tuple[list[StoredImage], list[dict[str, str]]]:
    """The images of class folders, every entry checked like an upload: those accepted, those refused."""
    accepted: list[StoredImage] = []
    refused: list[dict[str, str]] = []
    with _archive(stream) as archive:
        entries = [entry for entry in archive.infolist() if not _is_ignored(entry)]
        _check_sizes(entries)
        for entry in entries:
            try:
                label, name = _class_and_name(entry.filename)
                accepted.append(changes.add(label, name, _Entry(archive, entry)))
                continue
            except Refused as error:
                refused.append({"name": entry.filename[-200:], "error": str(error)})
            if len(refused) >= MAX_REFUSED and not accepted:
                raise Refused(
                    f"none of the first {MAX_REFUSED} files can be used ({refused[0]['error']}): "
                    "is it the right file?"
                )
    if not accepted and not refused:
        raise Refused("no images in it: a .zip with one folder of images for each class is needed")
    return accepted, refused


class _Parts:
    """A file that is read in parts: `zipfile` reads the list of entries at once, whatever its size."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._read = stream.read
        self.seek, self.tell, self.seekable = stream.seek, stream.tell, stream.seekable

    def read(self, n_bytes: int = -1) -> bytes:
        """The next bytes; `Refused` for very many."""
        if n_bytes > MAX_LIST_BYTES:
            raise Refused(f"too many files: at most {MAX_ENTRIES:,} in one .zip")
        return self._read(n_bytes)


def _archive(stream: IO[bytes]) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(_Parts(stream))
    except Refused:
        raise
    except Exception:  # of many kinds for damaged files
        raise Refused(
            "not a ZIP file, or damaged: choose a .zip with one folder for each class"
        ) from None


class _Entry:
    """A packed file, to be read; `Refused` for whatever goes wrong with it, also a lack of memory."""

    def __init__(self, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> None:
        self._archive, self._entry = archive, entry
        self._file: IO[bytes] | None = None

    def read(self, n_bytes: int) -> bytes:
        """The next bytes."""
        try:
            if self._file is None:
                self._file = self._archive.open(self._entry)
            return self._file.read(n_bytes)
        except Exception:  # zlib, bz2, lzma and zipfile raise many kinds, OSError among them
            raise Refused("damaged, or packed in an unknown way") from None


def _is_ignored(entry: zipfile.ZipInfo) -> bool:
    """Folders, and files that operating systems add."""
    parts = PurePosixPath(entry.filename).parts
    is_folder = entry.filename.endswith("/")
    return is_folder or "__MACOSX" in parts or parts[-1:] in ((".DS_Store",), ("Thumbs.db",))


def _check_sizes(entries: list[zipfile.ZipInfo]) -> None:
    if len(entries) > MAX_ENTRIES:
        raise Refused(f"{len(entries):,} files are too many: at most {MAX_ENTRIES:,} in one .zip")
    if sum(entry.file_size for entry in entries) > MAX_UNPACKED_BYTES:
        raise Refused(f"too large when unpacked: at most {MAX_UNPACKED_BYTES // 10**9} GB in one .zip")
    for entry in entries:
        if entry.file_size > max(MIN_CHECKED_BYTES, MAX_EXPANSION * entry.compress_size):
            raise Refused(
                f"{quoted(entry.filename)} would grow more than {MAX_EXPANSION} times when unpacked: "
                "no .zip of photos does that"
            )


def _class_and_name(path: str) -> tuple[str, str]:
    """Class and file name: the last two parts of the path."""
    parts = path.split("/")
    if ".." in parts or path.startswith("/") or "\\" in path:
        raise Refused(f"{quoted(path)}: a path must not lead out of its folder")
    if len(parts) < 2:
        raise Refused("not in a folder: put it into the folder of its class")
    return parts[-2], parts[-1]
