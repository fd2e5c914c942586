"""The command as a user meets it: a process of its own, its output and its exit code."""

import csv
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file

from command import fails_in_one_line, midfea, without_progress
from drawn import write_drives
from midfea import load
from midfea.datasets import load_surfaces


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Two folders of images, one for training and one held out."""
    root = tmp_path_factory.mktemp("photos")
    data = load_surfaces(n_per_class=24, size=64, random_state=0)
    for kind in (0, 3, 5):
        for index, image in enumerate(data.images[data.target == kind]):
            part = "train" if index % 2 else "test"
            folder = root / part / data.target_names[kind]
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(folder / f"{index}.png")
    return root


def train(*arguments):
    """With the quick preset: the usual one also trains a network."""
    return midfea("train", *arguments, "--preset", "fast")


@pytest.fixture(scope="module")
def model(photos):
    result = train(photos / "train", "-o", photos / "model.midfea")
    assert result.returncode == 0, result.stderr
    promised = re.search(
        r"Accuracy on new images: ([\d.]+)% \(95 % interval ([\d.]+) to ([\d.]+) %\)", result.stdout
    )
    accuracy, low, high = map(float, promised.groups())
    assert 0 <= low < accuracy < high <= 100
    assert re.search(r"scale +12 +[\d.]+% +\d+ to \d+ % +[\d.]+%", result.stdout)
    assert "Mean recall of the classes: " in result.stdout
    assert "would be correct for 33.3%." in result.stdout
    assert without_progress(result.stderr) == ""  # quiet when not on a terminal
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


def test_predict_takes_patterns_and_names_on_standard_input(photos, model):
    folder = photos / "test" / "scale"
    files = sorted(map(str, folder.iterdir()))

    def answered(*arguments):
        result = midfea("predict", model, *arguments, "--format", "csv")
        assert result.returncode == 0, result.stderr
        return [row["file"] for row in csv.DictReader(io.StringIO(result.stdout))]

    assert answered(folder / "*.png") == files
    assert answered(photos / "te*" / "**" / "*.png", folder) == sorted(
        map(str, (photos / "test").rglob("*.png"))
    )
    fails_in_one_line(midfea("predict", model, folder / "*.jpg"), "no images in")
    result = reading("\n".join(files[:3]).encode() + b"\n\n", "predict", model, "-", "--format", "csv")
    assert [line.split(",")[0] for line in result.stdout.splitlines()[1:]] == files[:3]
    binary = reading((folder / files[0]).read_bytes(), "predict", model, "-")
    fails_in_one_line(binary, "file names, one a line")
    fails_in_one_line(reading(b"", "predict", model, "-"), "no images in")


def reading(given, *arguments):
    """The command with something on standard input."""
    result = subprocess.run(
        [sys.executable, "-m", "midfea", *map(str, arguments)],
        input=given,
        capture_output=True,
        env={**os.environ, "PYTHONUTF8": "1"},
        check=False,
    )
    result.stdout, result.stderr = result.stdout.decode(), result.stderr.decode()
    return result


def test_top_and_threshold(photos, model):
    folder = photos / "test"
    result = midfea("predict", model, folder, "--top", 2, "--threshold", 0.99, "--format", "json")
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    for answer in answers:
        told = answer["probabilities"]  # rounded: two of them may be alike
        ranked = sorted(told.values(), reverse=True)
        top = [t["class"] for t in answer["top"]]
        assert len(set(top)) == 2
        assert [told[name] for name in top] == [t["probability"] for t in answer["top"]] == ranked[:2]
        assert answer["probability"] == ranked[0]
        assert answer["class"] == (top[0] if ranked[0] >= 0.99 else "unsure")
    assert len({answer["class"] == "unsure" for answer in answers}) == 2  # some of each
    table = midfea("predict", model, folder, "--top", 9, "--threshold", 0.99)
    assert "unsure" in table.stdout
    assert "3." in table.stdout  # there are three classes
    rows = midfea("predict", model, folder, "--top", 2, "--format", "csv").stdout.splitlines()
    assert rows[0] == "file,class,probability,class 1,probability 1,class 2,probability 2,belonging"
    refused = midfea("predict", model, folder, "--threshold", 80)
    assert refused.returncode == 2
    assert "threshold" in refused.stderr


def test_evaluate(photos, model):
    report, numbers = photos / "report.html", photos / "numbers.json"
    result = midfea("evaluate", model, photos / "test", "--report", report, "--json", numbers)
    assert result.returncode == 0, result.stderr
    found = json.loads(numbers.read_text())
    assert found["accuracy"] > 0.6
    assert f"Accuracy: {found['accuracy']:.1%} (95 % interval" in result.stdout
    low, high = found["interval"]
    assert low < found["accuracy"] < high
    confusion = np.array(found["confusion"])
    assert confusion.sum() == found["images"] == len(list((photos / "test").rglob("*.png")))
    assert np.trace(confusion) == found["correct"]
    for row, counts in zip(found["classes"], confusion, strict=True):
        assert row["images"] == counts.sum()
    if found["confused_pairs"]:
        assert f"predicted as {found['confused_pairs'][0]['predicted']}" in result.stdout
    page = report.read_text()
    assert "midfea evaluate" in page  # the exact command
    assert 'id="curve"' not in page  # the training images are not at hand


def test_evaluate_measures_what_the_thresholds_of_validation_bring(photos, model):
    numbers = photos / "targets.json"
    wishes = ("--precision", 0.99, "--miss", "scale=0.1", "--miss", "pits=0.01")
    result = midfea("evaluate", model, photos / "test", *wishes, "--json", numbers)
    assert result.returncode == 0, result.stderr
    assert "Targets, with thresholds from the model's validation:" in result.stdout
    assert (
        "99 % correct cannot be promised: that needs 299 images or more, there are 36" in result.stdout
    )
    assert "'pits' missed cannot be promised: that needs 99 images of the class" in result.stdout
    sure, scale, pits = json.loads(numbers.read_text())["targets"]
    assert sure["threshold"] is pits["threshold"] is None and "299 images" in sure["reason"]
    assert (scale["class_images"], scale["other_images"]) == (12, 24)
    assert f"{scale['found']} of 12 images of 'scale' are found" in result.stdout
    predicted = midfea("predict", model, photos / "test", "--miss", "scale=0.1", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(predicted.stdout)))
    found = [row for row in rows if row["class"] == "scale" and "/scale/" in row["file"]]
    others = [row for row in rows if row["class"] == "scale" and "/scale/" not in row["file"]]
    assert len(found) == scale["found"]
    assert len(others) == scale["false_alarms"]
    for row in rows:  # never another class than the most probable one, but for the one that is sought
        assert row["class"] == row["most probable"] or (
            row["class"] == "scale" and float(row["probability"]) >= scale["threshold"]
        )
    refused = midfea("evaluate", model, photos / "test", "--miss", "scal=0.1")
    fails_in_one_line(refused, "knows no class 'scal', only pits, scale, scratch")


def test_a_class_that_must_not_be_missed_is_the_answer_from_its_threshold_on(photos, model):
    lines = midfea("predict", model, photos / "test", "--miss", "scale=0.8", "--format", "json").stdout
    answers = [json.loads(line) for line in lines.splitlines()]
    for answer in answers:  # eight in ten may be missed, so the threshold is high
        assert answer["probability"] == answer["probabilities"][answer["class"]]
    table = midfea("predict", model, photos / "test", "--miss", "scale=0.1")
    assert "most probable" in table.stdout
    few = midfea("predict", model, photos / "test", "--miss", "scale=0.01")
    fails_in_one_line(
        few, "at most 1 % of 'scale' missed cannot be promised", "99 images", "there are 12"
    )
    twice = midfea("predict", model, photos / "test", "--miss", "scale=0.1", "--miss", "pits=0.1")
    fails_in_one_line(twice, "give --miss once", "scale=0.1, pits=0.1")


def test_report_of_train(photos, tmp_path):
    report = tmp_path / "report.html"
    result = train(photos / "train", "-o", tmp_path / "m.midfea", "--report", report)
    assert result.returncode == 0, result.stderr
    page = report.read_text()
    for part in ("confusion", "mistakes", "curve", "filters", "stages", "how"):
        assert f'id="{part}"' in page
    accuracy = re.search(r"Accuracy on new images: ([\d.]+%)", result.stdout)[1]
    assert f'<p class="accuracy">{accuracy}</p>' in page


def test_compare(photos, tmp_path):
    rows, kept = tmp_path / "rows.json", ("--cache", tmp_path / "cache", "--splits", 2)
    result = midfea("compare", photos / "train", "--methods", "pixels,hog", *kept, "--json", rows)
    assert result.returncode == 0, result.stderr
    found = json.loads(rows.read_text())
    assert [row["method"] for row in found] == ["raw pixels + SVM", "HOG + SVM"]
    for row in found:
        assert {"dataset", "method", "metric", "mean", "std", "trials", "paper"} <= row.keys()
        assert (row["dataset"], row["metric"], row["trials"]) == ("train", "accuracy", 2)
        assert 0 <= row["mean"] <= 100
        assert f"{row['mean']:.1f} %" in result.stdout and f"{row['mean_recall']:.1f} %" in result.stdout
    assert found[1]["mean"] > found[0]["mean"]  # changing light
    assert "earlier run" not in result.stdout
    again = midfea(
        "compare", "--data", photos / "train", "--methods", "hog", "--methods", "pixels", *kept
    )
    assert "4 of 4 trainings are those of an earlier run." in again.stdout
    assert f"{found[1]['mean']:.1f} %" in again.stdout
    anew = midfea("compare", photos / "train", "--methods", "hog", "--splits", 2, "--no-cache")
    assert f"{found[1]['mean']:.1f} %" in anew.stdout and "earlier run" not in anew.stdout


def test_compare_with_bad_input(photos, tmp_path):
    for folders in ([], [photos / "train", "--data", photos / "train"]):
        refused = midfea("compare", *folders)
        assert refused.returncode == 2
        assert "name one folder, such as: midfea compare photos" in refused.stderr
    fails_in_one_line(midfea("compare", "--data", tmp_path / "none"), "no such folder")
    fails_in_one_line(
        midfea("compare", "--data", photos / "train", "--methods", "fast,magic"), "'magic'", "sift"
    )
    fails_in_one_line(
        midfea("compare", photos / "train", "--methods", "hog", "magic"),
        "magic: no such folder",
    )
    nowhere = tmp_path / "no" / "rows.json"
    fails_in_one_line(midfea("compare", "--data", photos / "train", "--json", nowhere), "no folder")
    one = tmp_path / "one"
    one.mkdir()
    shutil.copytree(photos / "train" / "scale", one / "scale")
    fails_in_one_line(midfea("compare", "--data", one, "--methods", "pixels"), "two classes")


def test_warnings_about_the_images(photos, tmp_path):
    folder = tmp_path / "photos"
    scale = sorted(photos.glob("*/scale/*"))
    pits = sorted((photos / "train" / "pits").iterdir())[:5]
    for kind, files in (("scale", scale), ("pits", pits)):
        (folder / kind).mkdir(parents=True)
        for path in files:
            shutil.copy(path, folder / kind)
    shutil.copy(scale[0], folder / "scale" / "zz copy.png")
    with Image.open(pits[0]) as image:  # other bytes, the same pixels
        image.save(folder / "scale" / "zz other.png", compress_level=0)
    result = train(folder, "-o", tmp_path / "m.midfea")
    assert result.returncode == 0, result.stderr
    n_scale = len(scale) + 2
    mean, accuracy = (result.stdout.index(what) for what in ("Mean recall", "Accuracy on new images"))
    assert mean < accuracy  # the number that matters comes first
    assert "the classes are unequal, so this is the number to look at" in result.stdout
    assert (
        f"Always guessing 'scale' would be correct for {(n_scale / (n_scale + 5)):.1%}." in result.stdout
    )
    assert "At most 5 % of 'pits' missed cannot be promised: that needs" in result.stdout
    assert "1 of 2 classes have few images" in result.stderr
    assert "'pits': 5" in result.stderr
    assert f"'scale' has {n_scale} images, 'pits' 5, {n_scale / 5:.1f} times fewer" in result.stderr
    assert "1 images lie in two classes" in result.stderr
    assert f"pits/{pits[0].name} and scale/zz other.png" in result.stderr
    assert "1 images are duplicates" in result.stderr
    assert f"scale/{scale[0].name} and scale/zz copy.png" in result.stderr


@pytest.fixture(scope="module")
def in_series(tmp_path_factory):
    """Twelve series of five frames, one frame saved again as WebP."""
    folder = tmp_path_factory.mktemp("series")
    paths = write_drives(folder)
    with Image.open(paths[0]) as image:
        image.convert("RGB").save(paths[0].parent / "copy.webp", quality=90)
    return folder


def test_series_and_near_duplicates_are_kept_together_and_said(in_series, tmp_path):
    result = train(in_series, "-o", tmp_path / "m.midfea")
    assert result.returncode == 0, result.stderr
    assert "1 images are near-duplicates of others (encoded again" in result.stderr
    assert "class0/00000-00000.png and class0/copy.webp" in result.stderr
    assert "60 images look like series of photos, by names and likeness" in result.stderr
    assert "12 series of about 5 images" in result.stderr and "--groups none" in result.stderr
    assert (
        "(each of 61 images predicted by a model trained without it, in 10 folds that keep 12 groups "
        in (result.stdout)
    )
    assert load(tmp_path / "m.midfea").validation_.n_groups == 12


def test_groups_are_compared_as_wholes(in_series, tmp_path):
    table = tmp_path / "drives.csv"
    names = [str(path.relative_to(in_series)) for path in sorted(in_series.rglob("*.*"))]
    table.write_text("\n".join(["file,drive", *(f"{name},{name[:12]}" for name in names)]))
    arguments = (
        "compare",
        "--data",
        in_series,
        "--methods",
        "pixels",
        "--splits",
        1,
        "--no-cache",
        "--groups",
    )
    result = midfea(*arguments, f"{table}:drive")
    assert result.returncode == 0, result.stderr
    assert "61 images are in 13 groups, which validation does not split" in result.stderr
    assert float(re.search(r"([\d.]+) %", result.stdout)[1]) < 75  # nothing tells new drives apart
    alone = midfea(*arguments, "none")
    assert float(re.search(r"([\d.]+) %", alone.stdout)[1]) > 90  # other frames of the same drives


def test_groups_that_are_none_are_refused_before_images_are_read(tmp_path):
    refused = midfea("train", tmp_path / "none", "--groups", "persons")
    fails_in_one_line(refused, "--groups persons: not one of auto, none, folder")
    fails_in_one_line(midfea("compare", "--data", tmp_path / "none", "--groups", "regex:("), "regex:(")


def test_shell_completion():
    def completed(words):
        environment = {"_MIDFEA_COMPLETE": "complete_bash", "COMP_WORDS": words}
        result = midfea(**environment, COMP_CWORD=str(len(words.split(" ")) - 1))
        return result.stdout.split()

    assert completed("midfea train --preset ") == ["fast", "paper", "best"]
    assert completed("midfea compare --methods pixels,b") == ["pixels,best"]
    assert "evaluate" in completed("midfea e")
    code = "from midfea.cli import main; main()"
    asked = f"'{sys.executable}' -c '{code}' --show-completion; true"  # the shell that asks is bash
    shown = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
    assert "_MIDFEA_COMPLETE" in shown.stdout


def test_same_seed_same_model(photos, model):
    again = photos / "again.midfea"
    train(photos / "train", "-o", again, "--jobs", 1)
    mine, theirs = load_file(again), load_file(model)
    assert mine.keys() == theirs.keys()
    for name, array in mine.items():
        np.testing.assert_array_equal(array, theirs[name])


def test_help_and_version():
    for command in ("demo", "train", "predict", "evaluate", "compare"):
        result = midfea(command, "--help")
        assert result.returncode == 0
        assert "Usage" in result.stdout
        assert f"midfea {command}" in result.stdout.split("Example")[1]
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
    a_folder = midfea("train", photos / "train", "-o", tmp_path / "m", "--report", empty)
    fails_in_one_line(a_folder, "it is a folder")
    fails_in_one_line(midfea("demo", "--report", tmp_path / "no" / "r.html"), "there is no folder")
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
    (folder / "pits" / "raw.CR2").write_bytes(b"a picture, of no format that is read")
    image = Image.open(good)
    deep = np.asarray(image).astype(np.uint16) * 257
    Image.fromarray(deep).save(folder / "pits" / "deep.png")
    image.convert("RGBA").save(folder / "pits" / "rgba.png")
    image.convert("P").save(folder / "pits" / "palette.png")
    result = train(folder, "-o", tmp_path / "m.midfea")
    assert result.returncode == 0
    count = len(list(folder.rglob("*.*"))) - 1
    assert f"skipped 4 of {count} files" in result.stderr
    for name in ("cut.jpg", "raw.CR2", "text.jpg", "tiny.png"):
        assert name in result.stderr
    assert f"from {count - 4} images" in result.stdout
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
    report = tmp_path / "no" / "report.html"
    unwritable = midfea("evaluate", model, photos / "test", "--report", report)
    fails_in_one_line(unwritable, "there is no folder")
    fails_in_one_line(midfea("evaluate", model, photos / "none"), "no such folder")
    (tmp_path / "empty").mkdir()
    fails_in_one_line(midfea("evaluate", model, tmp_path / "empty"), "no images found")
    fails_in_one_line(midfea("predict", model, tmp_path / "empty"), "no images in")
    strange = tmp_path / "strange" / "cats"
    strange.mkdir(parents=True)
    (strange / "x.png").write_bytes(image.read_bytes())
    fails_in_one_line(midfea("evaluate", model, tmp_path / "strange"), "'cats'", "scratch")
    missing = midfea("predict", model, tmp_path / "missing.jpg")
    assert missing.returncode == 1
    assert "missing.jpg: no such file" in missing.stderr


def test_ports_that_do_not_exist_are_refused():
    refused = midfea("serve", "--port", 80000)
    assert refused.returncode == 2
    assert "--port" in refused.stderr and "65535" in refused.stderr


def test_unknown_option_is_explained(photos):
    result = midfea("train", photos, "--preset", "magic")
    assert result.returncode == 2
    assert "magic" in result.stderr


# Ctrl-C, sent by the process to itself when the step named in STEP is reported for the second time.
INTERRUPTED = """
import os, signal
from midfea.cli import main
from midfea.progress import reporting_to

signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background are deaf to it


def report(what, done, total):
    if what == os.environ["STEP"] and done == 1:
        os.kill(os.getpid(), signal.SIGINT)


with reporting_to(report):
    main()
"""


@pytest.mark.parametrize(
    "step",
    ["reading files", "filters", "words", "features", "classifier", "learning curve", "stage maps"],
)
def test_interrupting_a_step_leaves_no_half_file(photos, tmp_path, step):
    result = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, "train", str(photos / "train"), "--preset", "fast",
         "-o", str(tmp_path / "m.midfea"), "--report", str(tmp_path / "r.html")],
        capture_output=True,
        text=True,
        env={**os.environ, "STEP": step},
        check=False,
    )  # fmt: skip
    assert result.returncode == 130, result.stderr
    assert "Traceback" not in result.stderr
    assert "no unfinished file" in result.stderr
    left = [path.name for path in tmp_path.iterdir()]
    if step in ("learning curve", "stage maps"):  # the model is finished by then
        assert left == ["m.midfea"]
        load(tmp_path / "m.midfea")
    else:
        assert left == []


def test_interrupting_from_outside_leaves_nothing(photos, tmp_path):
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
