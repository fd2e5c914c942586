"""Files for the user: ONNX file, report, images by class, labels.

The report and the ONNX file are made in a process of their own,
`python -m midfea.serve.api.downloads KIND WORKSPACE FILE`:
they need libraries and memory that the server should not keep.
"""

from __future__ import annotations

import csv
import io
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from midfea.serve.api.current import CurrentModel, needs_record
from midfea.serve.errors import Clash, Refused
from midfea.serve.store.model_file import load_classifier
from midfea.serve.store.workspace import Workspace

CHUNK_BYTES = 1 << 20


class FileResponse(StreamingResponse):
    """A file as it is now, whatever replaces it while it is sent."""

    def __init__(self, path: Path, media_type: str) -> None:
        self._file = path.open("rb")
        size = os.fstat(self._file.fileno()).st_size
        chunks = iter(lambda: self._file.read(CHUNK_BYTES), b"")
        super().__init__(chunks, media_type=media_type, headers={"content-length": str(size)})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it; it is closed also if the client has gone."""
        with self._file:
            await super().__call__(scope, receive, send)


class _Pipe(io.RawIOBase):
    """Bytes that are written on one side and taken on the other."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        """The bytes written since the last time."""
        data = b"".join(self._parts)
        self._parts.clear()
        return data


def zip_chunks(workspace: Workspace) -> Iterator[bytes]:
    """A ZIP file of all images as class/file, made while it is sent; images are compressed already."""
    pipe = _Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_STORED) as archive:
        for count in workspace.images.classes():
            archive.mkdir(count.name, 0o755)
        for image in workspace.images.all():
            try:
                path = workspace.images.path(image)
                entry = zipfile.ZipInfo.from_file(
                    path, f"{image.label}/{image.name}", strict_timestamps=False
                )
                with path.open("rb") as file, archive.open(entry, "w") as target:
                    while chunk := file.read(CHUNK_BYTES):
                        target.write(chunk)
                        yield pipe.take()
            except FileNotFoundError:
                continue  # removed since
    yield pipe.take()


def labels_table(workspace: Workspace) -> str:
    """A CSV table with a line for each image."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(("file", "class", "width", "height", "id"))
    for image in workspace.images.all():
        row = (f"{image.label}/{image.name}", image.label, image.width, image.height, image.id)
        writer.writerow(row)
    return text.getvalue()


def make(kind: str, workspace: Workspace, target: Path) -> None:
    """Write the report or the ONNX file in another process; `Refused` with the reason if that fails."""
    command = [sys.executable, "-P", "-m", "midfea.serve.api.downloads", kind, str(workspace.root)]
    result = subprocess.run(
        [*command, str(target)], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    if result.returncode:
        lines = result.stderr.strip().splitlines()
        raise Refused(lines[-1] if lines else f"the {kind} could not be made")


def write_onnx_file(workspace: Workspace, target: Path) -> None:
    """The current model as ONNX."""
    from midfea.export import write_onnx

    write_onnx(load_classifier(workspace.model_file.path), target)


def write_report_file(workspace: Workspace, target: Path) -> None:
    """The report of the current model's training."""
    from midfea.datasets.folder import read_photos
    from midfea.learning.predictions import Predictions
    from midfea.report import Facts, Gallery, write_report

    loaded = CurrentModel(workspace).need()
    model, record, validation = loaded.model, needs_record(loaded), loaded.validation
    ids = [] if validation is None else [record.ids[i] for i in validation.indices]
    present = workspace.images.present(ids)
    rows_by_path = {
        workspace.images.path(present[id]): row for row, id in enumerate(ids) if id in present
    }
    photos, _ = read_photos(list(rows_by_path), model.max_side, model.min_side, thumbnails=True)
    if not photos or validation is None:
        raise Clash("there are no validation images to report on: add images, and train again")
    rows = [rows_by_path[photo.path] for photo in photos]
    predictions = Predictions(
        model.classes_,
        validation.labels[rows],
        validation.predicted[rows],
        validation.probabilities[rows],
    )
    gallery = Gallery(
        images=[photo.picture for photo in photos],
        thumbnails=[photo.thumbnail for photo in photos],
        names=[str(photo.path.relative_to(workspace.images.folder)) for photo in photos],
    )
    facts = Facts(
        title=workspace.root.name,
        interval=validation.interval,
        how=f"Expected on new images of the same kind: {validation.how}.",
        learned=f"{len(record.ids)} images of {len(model.classes_)} classes in {record.seconds:.0f} s",
    )
    write_report(target, model, predictions, gallery, facts, record.curve)


def main() -> None:
    """Make the file that the arguments name."""
    kind, root, target = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    sys.argv = ["midfea", "serve"]  # the report shows the command
    workspace = Workspace(root)
    try:
        {"onnx": write_onnx_file, "report": write_report_file}[kind](workspace, target)
    except (ValueError, OSError, ImportError) as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        sys.exit(1)
    finally:
        workspace.close()


if __name__ == "__main__":
    main()
