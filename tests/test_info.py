"""What `midfea info` and the model card say of a model file."""

import json

import numpy as np
import pytest

import midfea
from command import fails_in_one_line
from command import midfea as run
from midfea import MidFea, MidFeaClassifier
from midfea.report.about import about
from midfea.report.card import card
from small import SMALL


@pytest.fixture(scope="module")
def unequal(surfaces, tmp_path_factory):
    """A model of unequal classes, one of them with a strange name, and its file."""
    images, labels = surfaces
    rare = np.flatnonzero(labels == "pits")[3:]
    kept = np.setdiff1d(np.arange(len(labels)), rare)
    names = np.where(labels == "pits", "pits | <b>", labels)
    model = MidFeaClassifier(**SMALL).fit(list(images[kept]), names[kept])
    path = tmp_path_factory.mktemp("info") / "walls.midfea"
    model.save(path)
    return model, path


def test_info_says_what_the_validation_record_says(unequal):
    model, path = unequal
    result = run("info", path)
    assert result.returncode == 0, result.stderr
    validation = model.validation_
    for words in (
        "walls.midfea (0.",
        "format midfea",
        "3: pits | <b>, scale, scratch",
        "colours are not used, only grey",
        "4 filters of 7x7 pixels, 20 words, 40 features, a linear SVM",
        "preset none; ",
        "n_words=20",
        f"Accuracy on new images: {validation.interval}",
        validation.how,
        "the classes are unequal",
        "99 % correct cannot be promised: that needs 299 images or more, there are 27",
    ):
        assert words in result.stdout, words


def test_info_as_json_has_all_of_it(unequal):
    model, path = unequal
    found = json.loads(run("info", path, "--json").stdout)
    validation = found["validation"]
    assert found["classes"] == model.classes_.tolist()
    assert found["kind"] == "MidFeaClassifier" and found["colour"] is False
    assert found["settings"]["n_words"] == 20
    assert found["bytes"] == path.stat().st_size
    assert validation["accuracy"] == pytest.approx(model.validation_.accuracy)
    assert [row["images"] for row in validation["classes"]] == [3, 12, 12]
    assert validation["baseline"]["accuracy"] == pytest.approx(12 / 27)
    assert validation["mean_recall"] == pytest.approx(
        np.mean([row["recall"] for row in validation["classes"]])
    )


def test_the_card_names_limits_in_plain_words(unequal, tmp_path):
    _, path = unequal
    file = tmp_path / "card.md"
    result = run("info", path, "--card", file)
    assert f"Model card: {file}" in result.stdout
    text = file.read_text()
    for heading in ("Data", "How it was trained", "How good it is", "What can be decided", "Limits"):
        assert f"\n## {heading}\n" in text
    assert "| pits \\| \\<b\\> | 3 |" in text  # a name is neither a column nor HTML
    assert "<b>" not in text.replace("\\<b\\>", "")
    for words in (
        "does not see colours",
        "The classes are unequal: look at the mean recall",
        "Few images: fewer than 50 in validation for pits",
        "not on other cameras",
        'midfea.load("walls.midfea")',
    ):
        assert words in text, words
    fails_in_one_line(run("info", path, "--card", tmp_path / "no" / "card.md"), "there is no folder")


def test_an_onnx_file_says_what_it_holds_and_where_the_rest_is(unequal, tmp_path):
    pytest.importorskip("onnxruntime")
    from midfea.export import write_onnx

    model, _ = unequal
    path = tmp_path / "walls.onnx"
    write_onnx(model, path)
    found = about(path)
    assert found.classes == model.classes_.tolist()
    assert (found.min_side, found.max_side) == (model.min_side, model.max_side)
    assert found.midfea == midfea.__version__ and found.measured is None and found.colour is None
    result = run("info", path)
    assert "The accuracy is in the .midfea file from which this file was exported" in result.stdout
    assert "OnnxClassifier" in card(found)
    refused = run("predict", path, tmp_path, "--miss", "scale=0.1")
    fails_in_one_line(refused, "walls.onnx: holds no validation, which --miss needs: give the .midfea")


def test_features_alone_have_no_classes(surfaces, tmp_path):
    path = tmp_path / "features.midfea"
    MidFea(**SMALL).fit(list(surfaces[0])).save(path)
    found = about(path)
    assert found.classes == [] and found.measured is None
    text = card(found)
    assert "A features of images" not in text
    assert "model.transform" in text and "## Limits" not in text


def test_files_that_are_no_models_are_refused(tmp_path):
    bad = tmp_path / "bad.midfea"
    bad.write_bytes(b"nothing")
    fails_in_one_line(run("info", bad), "bad.midfea", "not a midfea model")
    with pytest.raises(FileNotFoundError, match="no such model file"):
        about(tmp_path / "none.midfea")
