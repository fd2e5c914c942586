"""The command with files and names that nobody checked: it says what it left out, and goes on."""

import csv
import os
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

from command import fails_in_one_line, midfea
from midfea import MidFeaClassifier
from midfea.datasets.folder import search_images
from small import SMALL


@pytest.fixture(scope="module")
def photos(surfaces, tmp_path_factory):
    """A folder for each of two classes, with names that could be taken for markup, and a model of it."""
    folder = tmp_path_factory.mktemp("photos")
    images, labels = surfaces
    chosen = [(image, label) for image, label in zip(images, labels, strict=True) if label != labels[0]]
    names = dict(zip(sorted({label for _, label in chosen}), ["[bold]", "a["], strict=True))
    for i, (image, label) in enumerate(chosen):
        (folder / names[label]).mkdir(exist_ok=True)
        Image.fromarray(image).save(folder / names[label] / f"[red]{i}[bold].png")
    model = MidFeaClassifier(**SMALL).fit(
        [image for image, _ in chosen], [names[label] for _, label in chosen]
    )
    model.save(folder.parent / "model.midfea")
    return folder


def test_names_are_never_markup(photos):
    model, folder = photos.parent / "model.midfea", photos / "a["
    Image.open(next(folder.iterdir())).save(folder / "b].jpg")
    shown = midfea("predict", model, photos)
    assert shown.returncode == 0, shown.stderr
    for path in photos.glob("*/*"):
        assert str(path) in shown.stdout
    evaluated = midfea("evaluate", model, photos)
    assert evaluated.returncode == 0, evaluated.stderr
    assert "[bold]" in evaluated.stdout
    trained = midfea("train", photos, "-o", photos.parent / "new.midfea", "--preset", "paper")
    assert trained.returncode == 0, trained.stderr
    fails_in_one_line(midfea("predict", "[/nothing].midfea", photos), "[/nothing].midfea")


def test_classes_are_never_markup(surfaces, photos, tmp_path):
    labels = np.where(surfaces[1] == "pits", "[/x]", "[red]y")
    MidFeaClassifier(**SMALL).fit(surfaces[0], labels).save(tmp_path / "m.midfea")
    shown = midfea("predict", tmp_path / "m.midfea", photos, "--top", 2)
    assert shown.returncode == 0, shown.stderr
    assert "[/x]" in shown.stdout
    assert "[red]y" in shown.stdout


def test_names_that_would_move_the_cursor_are_written_out(photos, tmp_path):
    strange = tmp_path / "\x1b[2Jcleared\r.png"
    shutil.copy(next(photos.glob("*/*.png")), strange)
    shown = midfea(
        "predict", photos.parent / "model.midfea", tmp_path, strange.with_name("\x1b[31m.png")
    )
    assert "\x1b" not in shown.stdout + shown.stderr
    assert "\\x1b[2Jcleared\\r.png" in shown.stdout
    assert "\\x1b[31m.png: no such file, and no file's name matches it" in shown.stderr


def test_names_that_are_no_text(photos, tmp_path):
    strange = os.fsencode(tmp_path) + b"/caf\xe9.png"
    shutil.copy(next(photos.glob("*/*.png")), os.fsdecode(strange))
    command = "from midfea.cli import main; main()"
    arguments = ["predict", photos.parent / "model.midfea", tmp_path, "--format", "csv"]
    result = subprocess.run([sys.executable, "-c", command, *arguments], capture_output=True, check=True)
    assert strange in result.stdout  # the very bytes, for the next program


def test_all_skipped_files_are_listed(photos, tmp_path):
    folder = tmp_path / "some"
    shutil.copytree(photos, folder)
    for i in range(12):
        (folder / "a[" / f"broken{i}.png").write_bytes(b"no image")
    os.mkfifo(folder / "a[" / "pipe.png")
    (folder / "a[" / "linked").symlink_to(photos)
    listed, model = tmp_path / "skipped.csv", photos.parent / "model.midfea"
    start = time.monotonic()
    result = midfea("predict", model, folder, "x" * 300, "--skipped", listed)
    assert time.monotonic() - start < 30
    assert result.returncode == 1
    assert f"... and 10 more: all are in {listed}" in result.stderr
    rows = dict(csv.reader(listed.read_text().splitlines()))
    assert rows.pop("file") == "reason"
    assert len(rows) == 15
    assert rows[str(folder / "a[" / "pipe.png")] == "cannot be read (is not a regular file)"
    assert "links are not followed" in rows[str(folder / "a[" / "linked")]
    assert "too long" in rows["x" * 300]
    result = midfea("evaluate", model, folder, "--report", tmp_path / "report.html")
    assert "--skipped FILE lists them all" in result.stderr
    report = (tmp_path / "report.html").read_text()
    assert "Files left out (14)" in report
    assert "broken11.png" in report


def test_folders_that_cannot_be_read_are_named(tmp_path):
    for name in ("open", "closed"):
        (tmp_path / name).mkdir()
        Image.new("L", (20, 20)).save(tmp_path / name / "x.png")
    (tmp_path / "closed").chmod(0)
    tmp_path.chmod(0o755)
    if os.getuid():
        found, skipped = search_images([tmp_path])
    else:  # nothing is closed to root
        found, skipped = [tmp_path / "open" / "x.png"], _search_as_nobody(tmp_path)
    (tmp_path / "closed").chmod(0o755)
    assert found == [tmp_path / "open" / "x.png"]
    assert [path for path, _ in skipped] == [tmp_path / "closed"]
    assert "cannot be read (Permission denied)" in skipped[0][1]


def _search_as_nobody(folder):
    for parent in [folder, *folder.parents]:
        if parent.stat().st_uid == os.getuid() and parent != parent.parent and parent.name != "tmp":
            parent.chmod(parent.stat().st_mode | 0o055)
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setuid(65534)
            lines = [f"{path}\t{reason}" for path, reason in search_images([folder])[1]]
            os.write(write, "\n".join(lines).encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read) as answer:
        lines = answer.read().splitlines()
    return [(type(folder)(path), reason) for path, reason in (line.split("\t") for line in lines)]


def test_a_full_disk_does_not_cost_the_model(photos, small_disk, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    old = small_disk / "pets.midfea"
    old.write_text("the old model")
    result = midfea("train", photos, "-o", old, "--preset", "paper", cwd=small_disk, HOME=str(home))
    assert result.returncode == 0, result.stderr
    assert "No space left on device" in result.stderr
    (kept,) = home.iterdir()
    assert f"the model is kept in {kept}: move it to where it belongs" in result.stderr
    assert f"Model: {kept}" in result.stdout
    assert midfea("predict", kept, photos).returncode == 0
    assert old.read_text() == "the old model"
    assert os.listdir(small_disk) == ["pets.midfea"]


def test_too_little_memory_is_said(photos, tmp_path):
    """A limit of the system (ulimit -v) that the program meets while it works."""
    code = (
        "import resource, midfea.cli, numpy, scipy.sparse, sklearn, PIL.Image, midfea.estimators.saved;"
        "used = int(open('/proc/self/statm').read().split()[0]) * 4096;"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 50_000_000,) * 2); midfea.cli.main()"
    )
    Image.new("L", (7000, 7000)).save(tmp_path / "large.png")
    arguments = ["predict", photos.parent / "model.midfea", tmp_path / "large.png"]
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert result.stderr.startswith("midfea: ")


def test_what_should_not_happen_is_one_line(photos, monkeypatch):
    code = (
        "import midfea.cli, midfea.cli.predict as p, sys\n"
        "def broken(*_): raise RuntimeError('[/red] out of order')\n"
        "p.load_classifier = broken; midfea.cli.main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, "predict", "m.midfea", "x.png"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert "this should not happen (RuntimeError: [/red] out of order)" in line


def test_floats_of_a_huge_unit_are_trained(surfaces):
    images = [image.astype(np.float64) * 1e25 for image in surfaces[0]]
    model = MidFeaClassifier(**SMALL).fit(images, surfaces[1])
    plain = MidFeaClassifier(**SMALL).fit(
        [image.astype(np.float64) for image in surfaces[0]], surfaces[1]
    )
    assert (model.predict(images) == plain.predict(list(surfaces[0].astype(float)))).mean() > 0.9
