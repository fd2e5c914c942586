"""Model files: what was saved comes back; what cannot be trusted is refused with one clear line."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import midfea
from midfea import MidFea, MidFeaClassifier, MidFeaRegressor
from midfea.model_file import ModelFileError
from small import SMALL


@pytest.fixture(scope="module")
def saved(surfaces, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model.midfea"
    model = MidFeaClassifier(**SMALL).fit(*surfaces)
    model.save(path)
    return model, path


@pytest.mark.parametrize("projection", ["random", "gaussian", "pca", None])
@pytest.mark.parametrize("partition", ["overlapping pyramid", (3, 3), {"size": 16, "step": 8}])
def test_features_come_back(surfaces, tmp_path, projection, partition):
    model = MidFea(**SMALL, projection=projection, partition=partition, encoding="llc").fit(surfaces[0])
    model.save(tmp_path / "m.midfea")
    again = midfea.load(tmp_path / "m.midfea")
    assert type(again) is MidFea
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(again.transform(surfaces[0]), model.transform(surfaces[0]))


def test_classifier_comes_back(saved, surfaces):
    model, path = saved
    again = midfea.load(path)
    np.testing.assert_array_equal(again.classes_, model.classes_)
    np.testing.assert_array_equal(again.predict_proba(surfaces[0]), model.predict_proba(surfaces[0]))
    assert again.validation_.accuracy == model.validation_.accuracy


@pytest.mark.parametrize("labels", [np.arange(3), np.array([True, False]), np.array([0.0, 2.0])])
def test_kinds_of_labels(surfaces, tmp_path, labels):
    y = labels[np.arange(36) % len(labels)]
    model = MidFeaClassifier(**SMALL).fit(surfaces[0], y)
    model.save(tmp_path / "m.midfea")
    again = midfea.load(tmp_path / "m.midfea")
    assert again.classes_.dtype.kind == model.classes_.dtype.kind
    np.testing.assert_array_equal(again.predict(surfaces[0]), model.predict(surfaces[0]))


def test_regressor_comes_back(surfaces, tmp_path):
    model = MidFeaRegressor(**SMALL, preset="fast").fit(surfaces[0], np.arange(36.0))
    model.save(tmp_path / "m.midfea")
    again = midfea.load(tmp_path / "m.midfea")
    np.testing.assert_array_equal(again.predict(surfaces[0]), model.predict(surfaces[0]))


def rewrite(path, target, change_description=None, change_arrays=None):
    """A copy of the file with its description or arrays changed."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        description = json.loads(json.loads(file.read(length))["__metadata__"]["midfea"])
    arrays = load_file(path)
    if change_description:
        change_description(description)
    if change_arrays:
        change_arrays(arrays)
    save_file(arrays, target, {"midfea": json.dumps(description)})


OLD = Path(__file__).parent / "data"


@pytest.mark.parametrize("name", ["paper", "fast", "finetuned"])
def test_files_of_format_1_answer_as_they_did(name):
    """Grey, coloured, float and large images, with the probabilities that were given then."""
    with np.load(OLD / "v1-answers.npz") as kept:
        images = [kept[key] for key in kept.files if key.startswith("image.")]
        probabilities, decisions = (kept[f"{name}.{what}"] for what in ("probabilities", "decision"))
    model = midfea.load(OLD / f"{name}-v1.midfea")
    np.testing.assert_allclose(model.predict_proba(images), probabilities, atol=1e-5)
    np.testing.assert_allclose(model.decision_function(images), decisions, atol=1e-4)
    assert len(model.validation_) == 0  # the format had none
    assert "cv" not in map(str, model.get_params().values())


def test_old_files_are_saved_in_the_new_format(tmp_path):
    model = midfea.load(OLD / "finetuned-v1.midfea")
    model.save(tmp_path / "new.midfea")
    with np.load(OLD / "v1-answers.npz") as kept:
        images = [kept["image.large"], kept["image.wide"]]
    again = midfea.load(tmp_path / "new.midfea")
    np.testing.assert_array_equal(again.predict_proba(images), model.predict_proba(images))


def test_the_validation_record_is_kept(saved):
    model, path = saved
    again = midfea.load(path)
    assert again.validation_.interval == model.validation_.interval
    assert again.validation_.how == model.validation_.how
    np.testing.assert_array_equal(again.validation_.predicted, model.validation_.predicted)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda d: d.update(version=3), "install a newer midfea"),
        (lambda d: d.update({"class": "os.system"}), "does not know"),
        (lambda d: d["params"].update(telepathy=1), "telepathy"),
        (lambda d: d["settings"].pop("window"), "window"),
        (lambda d: d["settings"].update(n_words=10**9), "codebook has shape"),
        (lambda d: d["settings"].update(n_words="many"), "n_words"),
        (lambda d: d.update(n_cells=3), "projection has shape"),
        (lambda d: d.update(classes=["a", "b"]), "coef has shape"),
        (lambda d: d.update(projection_shape=[5, 5]), "damaged"),
        (lambda d: d.update(format="other"), "not a midfea model"),
    ],
)
def test_descriptions_that_cannot_be_trusted(saved, tmp_path, change, message):
    rewrite(saved[1], tmp_path / "m.midfea", change_description=change)
    with pytest.raises(ModelFileError, match=message):
        midfea.load(tmp_path / "m.midfea")


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda a: a.pop("codebook"), "'codebook' is missing"),
        (lambda a: a.update(extra=np.zeros(2)), r"not known \(extra\).* train again"),
        (lambda a: a.update(codebook=a["codebook"] * np.nan), "NaN"),
        (lambda a: a.update(filters=a["filters"][:, :3]), "filters has shape"),
        (lambda a: a.update({"projection.indices": a["projection.indices"] + 10**6}), "damaged"),
    ],
)
def test_arrays_that_cannot_be_trusted(saved, tmp_path, change, message):
    rewrite(saved[1], tmp_path / "m.midfea", change_arrays=change)
    with pytest.raises(ModelFileError, match=message):
        midfea.load(tmp_path / "m.midfea")


def test_damaged_files(saved, tmp_path):
    content = saved[1].read_bytes()
    for name, part in [("half", content[: len(content) // 2]), ("empty", b""), ("text", b"hello" * 9)]:
        (tmp_path / name).write_bytes(part)
        with pytest.raises(ModelFileError, match="cut short"):
            midfea.load(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="no such model file"):
        midfea.load(tmp_path / "missing")


def test_nothing_half_written_is_left(saved, tmp_path, monkeypatch):
    target = tmp_path / "m.midfea"
    target.write_text("the old model")

    def fails(*args):
        raise OSError("disk full")

    monkeypatch.setattr("midfea.model_file.save_file", fails)
    with pytest.raises(OSError, match="disk full"):
        saved[0].save(target)
    assert [p.name for p in tmp_path.iterdir()] == ["m.midfea"]
    assert target.read_text() == "the old model"


def test_unfitted_and_unwritable(tmp_path, saved):
    with pytest.raises(ValueError, match="not fitted"):
        MidFea().save(tmp_path / "m.midfea")
    with pytest.raises(OSError, match="there is no folder"):
        saved[0].save(tmp_path / "nowhere" / "m.midfea")
    with pytest.raises(OSError, match="it is a folder"):
        saved[0].save(tmp_path)
