"""One model, one accuracy and one interval: command, model file, report, notebook and page agree."""

import re

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


def test_everyone_says_the_same(photos, tmp_path):
    pytest.importorskip("fastapi")
    from serving import Server

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
    with Server(tmp_path / "workspace") as server:
        with model_file.open("rb") as file:
            server.client.post("/api/open/model", files={"file": ("model.midfea", file)})
        shown = server.state()["model"]["accuracy"]
    assert (shown["value"], shown["low"], shown["high"]) == pytest.approx(tuple(validation.interval))
    assert shown["n"] == len(validation) and shown["how"] == validation.how
