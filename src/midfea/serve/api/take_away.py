"""What the user takes along: model, ONNX file, report, images by class, labels.

The report and the ONNX file are made in a process of their own,
`python -m midfea.serve.api.take_away KIND WORKSPACE FILE`:
they need libraries and memory that the server should not keep.
"""

from __future__ import annotations

import csv
import io
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from midfea.serve.errors import Clash, Refused
from midfea.serve.store.workspace import Workspace

CHUNK = 1 << 20


class _Pipe(io.RawIOBase):
    """What is written comes out in parts; there is no way back."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def taken(self) -> bytes:
        """What was written since."""
        data = b"".join(self._parts)
        self._parts.clear()
        return data


def zipped(workspace: Workspace) -> Iterator[bytes]:
    """All images as class/file in a ZIP file, made while it is sent; images are packed already."""
    pipe = _Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_STORED) as archive:
        for count in workspace.classes():
            folder = zipfile.ZipInfo(f"{count.name}/")
            folder.external_attr = (0o40755 << 16) | 0x10
            archive.writestr(folder, b"")
        for image in workspace.all_images():
            try:
                path = workspace.path(image)
                entry = zipfile.ZipInfo.from_file(
                    path, f"{image.label}/{image.name}", strict_timestamps=False
                )
                with path.open("rb") as file, archive.open(entry, "w") as target:
                    while chunk := file.read(CHUNK):
                        target.write(chunk)
                        yield pipe.taken()
            except FileNotFoundError:
                continue  # removed since
    yield pipe.taken()


def labels_table(workspace: Workspace) -> str:
    """A line for each image: file, class, size, id."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(("file", "class", "width", "height", "id"))
    for image in workspace.all_images():
        row = (f"{image.label}/{image.name}", image.label, image.width, image.height, image.id)
        writer.writerow(row)
    return text.getvalue()


def make(kind: str, workspace: Workspace, target: Path) -> None:
    """Write the report or the ONNX file, in another process; `Refused` with the reason if not."""
    command = [sys.executable, "-P", "-m", "midfea.serve.api.take_away", kind, str(workspace.root)]
    ended = subprocess.run(
        [*command, str(target)], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    if ended.returncode:
        lines = ended.stderr.strip().splitlines()
        raise Refused(lines[-1] if lines else f"the {kind} could not be made")


def write_onnx_file(workspace: Workspace, target: Path) -> None:
    """The current model as ONNX."""
    from midfea import load
    from midfea.export import write_onnx

    write_onnx(load(workspace.model_file), target)


def write_report_file(workspace: Workspace, target: Path) -> None:
    """The report of the current model's training."""
    from midfea.datasets.folder import read_photos
    from midfea.learning.interval import Interval
    from midfea.report import Answers, Facts, write_report
    from midfea.serve.api.current import CurrentModel, needs_results
    from midfea.serve.errors import Missing
    from midfea.serve.training.features import KeptFeatures

    current = CurrentModel(workspace).need()
    results, model = needs_results(current), current.model
    about, places = results.about, {}
    for row, i in enumerate(results.held_out):
        try:
            places[workspace.path(workspace.find(results.ids[i]))] = (row, int(i))
        except Missing:
            continue  # removed since
    photos, _ = read_photos(list(places), model.settings_["max_side"], model.min_side, thumbnails=True)
    if not photos or about["accuracy"] is None:
        raise Clash("nothing was held out in training, so there is nothing to report: add images")
    rows, indices = (list(column) for column in zip(*(places[p.path] for p in photos), strict=True))
    classes = np.array(about["classes"], dtype=str)
    answers = Answers(
        labels=classes[results.labels[indices]],
        predicted=classes[results.predicted[rows]],
        classes=classes,
        probabilities=results.probabilities[rows].astype(np.float64),
        images=[photo.grey for photo in photos],
        thumbnails=[photo.thumbnail for photo in photos],
        names=[str(photo.path.relative_to(workspace.images_folder)) for photo in photos],
    )
    found = about["accuracy"]
    facts = Facts(
        title=workspace.root.name,
        interval=Interval(found["value"], found["low"], found["high"]),
        how=f"Expected on new images of the same kind: {found['how']}.",
        learned=f"{about['images']} images of {len(classes)} classes in {about['seconds']:.0f} s",
    )
    kept = KeptFeatures(workspace.hidden / "features", about["chain"])
    labels = None
    if all(id in kept.places for id in results.ids):
        model.training_features_ = kept.rows(results.ids)
        labels = classes[results.labels]
    write_report(target, model, answers, facts, training_labels=labels)


def main() -> None:
    """One of the two, as the arguments say."""
    kind, root, target = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    sys.argv = ["midfea", "serve"]  # the report tells the command
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
