"""The command as a user meets it: a process of its own, its output and its exit code."""

import csv
import io
import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file

from command import fails_in_one_line, midfea
from midfea.datasets import load_surfaces


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Two folders of images, one for training and one held out."""
    root = tmp_path_factory.mktemp("photos")
    data = load_surfaces(n_per_class=24, size=64, random_state=0)
    for index, (image, kind) in enumerate(zip(data.images, data.target, strict=True)):
        if kind in (0, 3, 5):
            part = "train" if index % 2 else "test"
            folder = root / part / data.target_names[kind]
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(folder / f"{index}.png")
    return root


@pytest.fixture(scope="module")
def model(photos):
    result = midfea("train", photos / "train", "-o", photos / "model.midfea")
    assert result.returncode == 0, result.stderr
    assert "Accuracy on training images held out in turn" in result.stdout
    assert result.stderr == ""  # quiet when not on a terminal
    return photos / "model.midfea"


def test_predict_in_three_formats(photos, model):
    folder = photos / "test" / "scale"
    table = midfea("predict", model, folder)
    assert table.returncode == 0
    assert "probability" in table.stdout
    rows = list(csv.DictReader(io.StringIO(midfea("predict", model, folder, "--format", "csv").stdout)))
    lines = midfea("predict", model, folder, "--format", "json").stdout.splitlines()
    objects = [json.loads(line) for line in lines]
    files = sorted(map(str, folder.iterdir()))
    assert sorted(row["file"] for row in rows) == sorted(o["file"] for o in objects) == files
    for row, answer in zip(rows, objects, strict=True):
        assert (
            row["class"]
            == answer["class"]
            == max(answer["probabilities"], key=answer["probabilities"].get)
        )
        assert sum(answer["probabilities"].values()) == pytest.approx(1, abs=1e-4)


def test_evaluate(photos, model):
    report = photos / "report.html"
    result = midfea("evaluate", model, photos / "test", "--report", report)
    assert result.returncode == 0, result.stderr
    accuracy = float(result.stdout.split("Accuracy: ")[1].split("%")[0])
    assert accuracy > 60
    page = report.read_text()
    assert "<table>" in page
    assert "http" not in page.replace("http-equiv", "")


def test_same_seed_same_model(photos, model):
    again = photos / "again.midfea"
    midfea("train", photos / "train", "-o", again, "--jobs", 1)
    mine, theirs = load_file(again), load_file(model)
    assert mine.keys() == theirs.keys()
    for name, array in mine.items():
        np.testing.assert_array_equal(array, theirs[name])


def test_help_and_version():
    for command in ("demo", "train", "predict", "evaluate"):
        result = midfea(command, "--help")
        assert result.returncode == 0
        assert "Usage" in result.stdout
    assert "Example" in midfea("train", "--help").stdout
    assert midfea("--version").stdout.startswith("midfea 0")


def test_training_folders_that_cannot_be_used(tmp_path, photos):
    empty = tmp_path / "empty"
    empty.mkdir()
    fails_in_one_line(midfea("train", empty, "-o", tmp_path / "m"), "no images found", "for each class")
    fails_in_one_line(midfea("train", tmp_path / "missing", "-o", tmp_path / "m"), "no such folder")
    one = tmp_path / "one"
    one.mkdir()
    (one / "scale").symlink_to(photos / "train" / "scale")
    fails_in_one_line(midfea("train", one, "-o", tmp_path / "m"), "one class only", "'scale'")
    nowhere = midfea("train", photos / "train", "-o", tmp_path / "no" / "m.midfea")
    fails_in_one_line(nowhere, "there is no folder")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["empty", "one"]


def test_bad_files_among_good_ones_are_named_skipped_and_counted(tmp_path, photos):
    folder = tmp_path / "photos"
    for kind in ("scale", "pits"):
        (folder / kind).mkdir(parents=True)
        for path in (photos / "train" / kind).iterdir():
            (folder / kind / path.name).write_bytes(path.read_bytes())
    good = next((photos / "train" / "pits").iterdir())
    Image.open(good).save(tmp_path / "good.jpg")
    (folder / "pits" / "cut.jpg").write_bytes((tmp_path / "good.jpg").read_bytes()[:400])
    (folder / "pits" / "text.jpg").write_text("no image at all")
    Image.new("L", (3, 3)).save(folder / "pits" / "tiny.png")
    (folder / "pits" / "notes.txt").write_text("passed over silently")
    image = Image.open(good)
    deep = np.asarray(image).astype(np.uint16) * 257
    Image.fromarray(deep).save(folder / "pits" / "deep.png")
    image.convert("RGBA").save(folder / "pits" / "rgba.png")
    image.convert("P").save(folder / "pits" / "palette.png")
    result = midfea("train", folder, "-o", tmp_path / "m.midfea")
    assert result.returncode == 0
    count = len(list(folder.rglob("*.*"))) - 1
    assert f"skipped 3 of {count} files" in result.stderr
    for name in ("cut.jpg", "text.jpg", "tiny.png"):
        assert name in result.stderr
    assert f"from {count - 3} images" in result.stdout
    some = midfea("predict", tmp_path / "m.midfea", folder / "pits")
    assert some.returncode == 1
    assert "deep.png" in some.stdout
    assert "text.jpg" in some.stderr


def test_models_that_cannot_be_used(tmp_path, photos, model):
    image = next((photos / "test" / "scale").iterdir())
    half = tmp_path / "half.midfea"
    half.write_bytes(model.read_bytes()[:5000])
    fails_in_one_line(midfea("predict", half, image), "half.midfea", "cut short")
    fails_in_one_line(midfea("evaluate", tmp_path / "none", photos / "test"), "no such model file")
    strange = tmp_path / "strange" / "cats"
    strange.mkdir(parents=True)
    (strange / "x.png").write_bytes(image.read_bytes())
    fails_in_one_line(midfea("evaluate", model, tmp_path / "strange"), "'cats'", "scratch")
    missing = midfea("predict", model, tmp_path / "missing.jpg")
    assert missing.returncode == 1
    assert "missing.jpg: no such file" in missing.stderr


def test_unknown_option_is_explained(photos):
    result = midfea("train", photos, "--preset", "magic")
    assert result.returncode == 2
    assert "magic" in result.stderr


def test_interrupting_leaves_nothing(photos, tmp_path):
    # Tests that run in the background of a shell are deaf to Ctrl-C, and so are their children.
    listening = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    process = subprocess.Popen(
        [sys.executable, "-c", f"{listening}; from midfea.cli import main; main()", "train",
         str(photos / "train"), "-o", str(tmp_path / "m.midfea"), "--preset", "best"],
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    time.sleep(4)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []
