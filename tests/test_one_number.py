"""One model, one accuracy and one interval: command, model file, report, notebook and page agree."""

import re
import shutil

import pytest
from PIL import Image

import midfea
from command import midfea as run
from midfea.datasets import load_surfaces


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Some drawn images by class, two of them twice."""
    folder = tmp_path_factory.mktemp("photos")
    data = load_surfaces(n_per_class=8, size=64, random_state=0)
    for i, (pixels, kind) in enumerate(zip(data.images, data.target, strict=True)):
        place = folder / data.target_names[kind]
        place.mkdir(exist_ok=True)
        Image.fromarray(pixels).save(place / f"{i}.png")
        if i < 2:
            Image.fromarray(pixels).save(place / f"{i}-again.png")
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    pytest.importorskip("fastapi")
    from serving import Server

    with Server(tmp_path_factory.mktemp("serve") / "workspace", trial_seconds=60) as running:
        yield running


def opened(server, model_file):
    """What the page says of the accuracy of a model from a file."""
    with model_file.open("rb") as file:
        answer = server.client.post("/api/open/model", files={"file": (model_file.name, file)})
    assert answer.status_code == 200, answer.text
    return server.state()["model"]["accuracy"]


def test_everyone_says_that_there_are_too_few_images(photos, server, tmp_path):
    few, model_file, report = tmp_path / "few", tmp_path / "few.midfea", tmp_path / "few.html"
    for path in [sorted(kind.iterdir())[i] for kind in sorted(photos.iterdir())[:2] for i in (0, 4)]:
        (few / path.parent.name).mkdir(parents=True, exist_ok=True)
        shutil.copy(path, few / path.parent.name)
    options = ("--report", report, "--preset", "fast")
    printed = run("train", few, "-o", model_file, *options).stdout
    interval = midfea.load(model_file).validation_.interval
    said = f"too few images to say (95 % interval {100 * interval.low:.1f} to 100.0 %)"
    assert f"Accuracy on new images: {said}" in printed
    assert said in midfea.load(model_file)._repr_html_()
    page = re.sub(r"<[^>]+>", "", report.read_text().partition("<main")[0].rpartition("<header")[2])
    assert "accuracy on new images: too few images to say" in page
    assert not re.search(r"mean recall|[\d.]+%", page)
    shown = opened(server, model_file)
    assert shown["value"] is None
    assert "too few images to say" in shown["drawing"]


def test_everyone_says_the_same(photos, server, tmp_path):
    model_file, report = tmp_path / "model.midfea", tmp_path / "report.html"
    printed = run("train", photos, "-o", model_file, "--preset", "fast", "--report", report).stdout
    validation = midfea.load(model_file).validation_
    said = str(validation.interval)
    assert f"Accuracy on new images: {said}" in printed
    assert validation.how in printed
    assert said in midfea.load(model_file)._repr_html_()
    page = re.sub(r"<[^>]+>", "", report.read_text())
    accuracy, low, high = (100 * share for share in validation.interval)
    for number in (f"{accuracy:.1f}", f"{low:.1f}", f"{high:.1f}"):
        assert number in page
    assert validation.how in page
    shown = opened(server, model_file)
    assert (shown["value"], shown["low"], shown["high"]) == pytest.approx(tuple(validation.interval))
    assert shown["n"] == len(validation) and shown["how"] == validation.how
