"""Model files: what was saved comes back; what cannot be trusted is refused with one clear line."""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save

import midfea
from midfea import MidFea, MidFeaClassifier, MidFeaRegressor, checksum
from midfea.model_file import ModelFileError
from midfea.pictures.reading import ImageError
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


@pytest.mark.parametrize("labels", [np.arange(3), np.array(["a", "b", "c"])])
def test_class_weights_come_back(surfaces, tmp_path, labels):
    """Labels that are numbers stay numbers; those that JSON does not know are refused."""
    y = labels[np.arange(36) % 3]
    model = MidFeaClassifier(**SMALL, class_weight={labels[1]: 2.5}).fit(surfaces[0], y)
    model.save(tmp_path / "m.midfea")
    again = midfea.load(tmp_path / "m.midfea")
    assert again.class_weight == {labels[1].item(): 2.5} == again.settings_["class_weight"]
    assert again.fit(surfaces[0], y).class_weights_.tolist() == [1, 2.5, 1]
    with pytest.raises(ValueError, match=r"class_weight: .* cannot be saved: use text or numbers"):
        model.set_params(class_weight={("a", 1): 2.0}).save(tmp_path / "m.midfea")


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
    description["checksum"] = checksum.EMPTY
    target.write_bytes(checksum.seal(save(arrays, {"midfea": json.dumps(description)})))


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


@pytest.mark.parametrize("version", [2, 3])
def test_files_of_formats_2_and_3_answer_as_they_did(version):
    """Format 2 has no checksum, and is read without; neither knows colours or class weights."""
    with np.load(OLD / "v1-answers.npz") as kept:
        images = [kept[key] for key in kept.files if key.startswith("image.")]
    model = midfea.load(OLD / f"fast-v{version}.midfea")
    with np.load(OLD / "v2-answers.npz") as answers:
        np.testing.assert_allclose(model.predict_proba(images), answers["probabilities"], atol=1e-5)
        np.testing.assert_allclose(model.decision_function(images), answers["decision"], atol=1e-4)
    assert len(model.validation_) > 0
    assert (model.colour, model.class_weight) == (None, None)


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
        (lambda d: d.update(version=5), "install a newer midfea"),
        (lambda d: d.update({"class": "os.system"}), "does not know"),
        (lambda d: d["params"].update(telepathy=1), "parameters differ .* telepathy"),
        (lambda d: d["settings"].pop("window"), "window"),
        (lambda d: d["settings"].update(n_words=10**6), "codebook has shape"),
        (lambda d: d["settings"].update(n_words="many"), "n_words"),
        (lambda d: d.update(n_cells=3), "n_cells is 3, the partition has 21"),
        (lambda d: d.update(classes=["a", "b"]), "coef has shape"),
        (lambda d: d.update(projection_shape=[5, 5]), "damaged"),
        (lambda d: d.update(format="other"), "not a midfea model"),
        (lambda d: d.update(n_cells=float("inf")), "n_cells must be a whole number"),
        (lambda d: d.update(n_cells=10**30), "n_cells must be a whole number"),
        (lambda d: d.update(n_cells="9"), "n_cells must be a whole number"),
        (lambda d: d.update(logit_scale=None), "logit_scale must be a number from 0"),
        (lambda d: d.update(logit_scale=float("nan")), "logit_scale must be a number from 0"),
        (lambda d: d.update(logit_scale=True), "logit_scale must be a number from 0"),
        (lambda d: d.update(C=-1.0), "C must be a number from"),
        (lambda d: d["settings"].update(partition=[10**6, 10**6]), "at most 10000 cells"),
        (lambda d: d["settings"].update(partition=[[1], "x"]), "damaged"),
        (lambda d: d["settings"].update(encoding="llc", n_neighbors=500), "n_neighbors must be"),
        (lambda d: d["settings"].update(encoding="llc", n_neighbors=21), "exceeds n_words"),
        (lambda d: d["settings"].update(sharpness=1e300), "sharpness must be"),
        (lambda d: d["settings"].update(scales=[1.0] * 1000), "scales must be"),
        (lambda d: d["settings"].update(max_side=10**12), "max_side must be"),
        (lambda d: d.update(classes=["pits", "pits", "scale"]), "none may stand twice"),
        (lambda d: d.update(classes=["scale", "pits", "a"]), "must be sorted"),
        (lambda d: d.update(classes=[["a"], "b", "c"]), "must be text or numbers"),
        (lambda d: d.update(classes={"a": 1}), "a list of two labels or more"),
        (lambda d: d.update(classes_kind="V"), "must be text or numbers"),
        (lambda d: d["validation"].update(n_folds=-1), "n_folds must be"),
        (lambda d: d["params"].update(n_jobs=10**9), "n_jobs must be"),
        (lambda d: d["params"].update(engine="evil"), "engine"),
        (lambda d: d["params"].update(n_words=-5), "n_words must be"),
        (lambda d: d["settings"].update(partition=[1, 2]), "n_cells is 21, the partition has 2"),
        (lambda d: d["params"].update(device={}), "device must be"),
        (lambda d: d["params"].update(precision=[1]), "precision must be"),
        (lambda d: d["settings"].update(scales="auto"), "scales must be"),
        (lambda d: d["settings"].update(colour="auto"), "colour must be"),
        (lambda d: d["settings"].update(colour=2.0), "colour must be"),
        (lambda d: d["settings"].update(colour=0.3), "colour_bandwidth must be"),
        (lambda d: d["params"].update(class_weight=[["pits", -1]]), "must be above zero"),
        (lambda d: d["settings"].update(scales=[1e-320]), "scales must be"),
        (lambda d: d["settings"].update(pairs=1), "pairs must be"),
        (lambda d: d["settings"].update(rectify=-0.0), "rectify must be"),
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
        (lambda a: a.update({"projection.indptr": a["projection.indptr"] - 1}), "beyond 0 to"),
        (lambda a: a["projection.indptr"].__setitem__(-1, 0), "projection.indptr must not fall"),
        (lambda a: a.update(filters=np.full_like(a["filters"], 3e38)), "beyond -1.001 to 1.001"),
        (lambda a: a.update(codebook=a["codebook"].astype(np.float16)), "holds F16"),
        (lambda a: a.update(coef=np.full_like(a["coef"], 3e38)), "beyond"),
        (lambda a: a.update(coef=a["coef"].astype(np.int32)), "int32, not float32 or float64"),
        (lambda a: a.update({"validation.labels": a["validation.labels"] + 9}), "do not exist"),
    ],
)
def test_arrays_that_cannot_be_trusted(saved, tmp_path, change, message):
    rewrite(saved[1], tmp_path / "m.midfea", change_arrays=change)
    with pytest.raises(ModelFileError, match=message):
        midfea.load(tmp_path / "m.midfea")


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda a: a.update({"ns_layer.W": a["ns_layer.W"][:, 1:]}), "W has shape"),
        (lambda a: a.update({"ns_layer.D": a["ns_layer.D"][1:]}), "D has shape"),
        (lambda a: a.update({"ns_layer.b": a["ns_layer.b"][1:]}), "b has shape"),
        (lambda a: a.update({"ns_layer.center": a["ns_layer.center"][1:]}), "center has shape"),
    ],
)
def test_ns_layers_that_cannot_be_trusted(surfaces, tmp_path, change, message):
    model = MidFeaRegressor(**SMALL, selectivity=3).fit(surfaces[0], np.arange(36.0))
    model.save(tmp_path / "whole.midfea")
    rewrite(tmp_path / "whole.midfea", tmp_path / "m.midfea", change_arrays=change)
    with pytest.raises(ModelFileError, match=message):
        midfea.load(tmp_path / "m.midfea")


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda a: a.update({"network.step": np.array(0)}), "beyond 1 to 8"),
        (lambda a: a.update({"network.step": np.array(10**9)}), "beyond 1 to 8"),
        (lambda a: a.update({"network.view_shift": np.array(-1)}), "beyond 0 to 64"),
        (lambda a: a.update({"network.third": a["network.third"][1:]}), "third has shape"),
        (lambda a: a.update({"network.whole": a["network.whole"][:, 1:]}), "whole has shape"),
        (lambda a: a.update(network_weights=a["network_weights"][1:]), "network_weights has shape"),
    ],
)
def test_networks_that_cannot_be_trusted(tmp_path, change, message):
    midfea.load(OLD / "finetuned-v1.midfea").save(tmp_path / "whole.midfea")
    rewrite(tmp_path / "whole.midfea", tmp_path / "m.midfea", change_arrays=change)
    with pytest.raises(ModelFileError, match=message):
        midfea.load(tmp_path / "m.midfea")


def test_a_flipped_bit_is_always_noticed(saved, tmp_path):
    """In the header, the description, the checksum itself and the arrays; benchmarks/ has a thousand."""
    content, draw = saved[1].read_bytes(), np.random.RandomState(0)
    header = 8 + int.from_bytes(content[:8], "little")
    places = np.concatenate(
        [np.arange(8), draw.randint(8, header, 60), draw.randint(len(content), size=60)]
    )
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= 1 << draw.randint(8)
        (tmp_path / "m.midfea").write_bytes(damaged)
        with pytest.raises(ModelFileError):
            midfea.load(tmp_path / "m.midfea")


def test_the_checksum_cannot_be_left_out(saved, tmp_path):
    content = saved[1].read_bytes()
    for old, new in [(b"sha256:", b"sha257:"), (b"checksum", b"checksun")]:
        (tmp_path / "m.midfea").write_bytes(content.replace(old, new, 1))
        with pytest.raises(ModelFileError, match="checksum does not agree"):
            midfea.load(tmp_path / "m.midfea")


def test_one_bit_does_not_make_a_file_that_needs_no_checksum(tmp_path):
    """3 and 2 differ by a bit, and files of format 2 have no checksum."""
    content = (OLD / "fast-v3.midfea").read_bytes()
    new, old = (rb"\"version\": %d," % version for version in (3, 2))
    assert content.count(new) == 1
    (tmp_path / "m.midfea").write_bytes(content.replace(new, old))
    with pytest.raises(ModelFileError, match="checksum does not agree"):
        midfea.load(tmp_path / "m.midfea")


LOAD = """
import resource, sys
import midfea
resource.setrlimit(resource.RLIMIT_DATA, (2 << 30, 2 << 30))
try:
    midfea.load(sys.argv[1])
except ValueError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("n_bytes", "n_header_bytes", "message"),
    [
        (8_000_000_001, 100, "more than any model"),
        (100_000_100, 100_000_001, "the header is longer than"),
        (1000, 1001, "the header is longer than"),
    ],
)
def test_files_that_would_fill_the_memory(tmp_path, n_bytes, n_header_bytes, message):
    """Files with a hole in them, which take no room on the disk, loaded with little memory."""
    with (tmp_path / "m.midfea").open("wb") as file:
        file.write(n_header_bytes.to_bytes(8, "little"))
        file.truncate(n_bytes)
    command = [sys.executable, "-c", LOAD, tmp_path / "m.midfea"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert message in done.stdout


def test_descriptions_that_are_too_deep(saved, tmp_path):
    for text in ("[" * 100_000, '{"format":"midfea","version":3,"x":' + "[" * 5000 + "]" * 5000 + "}"):
        (tmp_path / "m.midfea").write_bytes(save({"a": np.zeros(2)}, {"midfea": text}))
        with pytest.raises(ModelFileError):
            midfea.load(tmp_path / "m.midfea")


def test_cells_of_a_fixed_size_with_other_scales(surfaces, tmp_path):
    """More cells than the projection has rows: that used to read beyond its end."""
    settings = {**SMALL, "partition": {"size": 16, "step": 8}}
    MidFea(**settings).fit(surfaces[0]).save(tmp_path / "one.midfea")
    rewrite(
        tmp_path / "one.midfea",
        tmp_path / "other.midfea",
        change_description=lambda d: d["settings"].update(scales=[2.0]),
    )
    with pytest.raises(ImageError, match="cells where the model has"):
        midfea.load(tmp_path / "other.midfea").transform(surfaces[0][:1])
    larger = MidFea(**settings, scales=(2.0, 1.0)).fit(surfaces[0])
    assert np.isfinite(larger.transform(surfaces[0][:1])).all()


def test_words_that_are_nearly_zero(saved, surfaces, tmp_path):
    """Such a model is useless, but its answers are numbers."""
    rewrite(
        saved[1], tmp_path / "m.midfea", change_arrays=lambda a: a.update(codebook=a["codebook"] * 1e-42)
    )
    answers = midfea.load(tmp_path / "m.midfea").predict_proba(surfaces[0][:2])
    assert np.isfinite(answers).all()


def test_labels_that_are_dates(surfaces, tmp_path):
    days = np.array(["2026-01-01", "2026-02-01", "2026-03-01"], dtype="datetime64[D]")
    model = MidFeaClassifier(**SMALL).fit(surfaces[0], days[np.arange(36) % 3])
    model.save(tmp_path / "m.midfea")
    again = midfea.load(tmp_path / "m.midfea")
    np.testing.assert_array_equal(again.predict(surfaces[0]), model.predict(surfaces[0]))


def test_not_a_regular_file(tmp_path):
    os.mkfifo(tmp_path / "pipe.midfea")
    for path in (tmp_path, tmp_path / "pipe.midfea"):
        with pytest.raises(ModelFileError, match="cannot be read"):
            midfea.load(path)


def test_damaged_files(saved, tmp_path):
    content = saved[1].read_bytes()
    for name, part in [("half", content[: len(content) // 2]), ("empty", b""), ("text", b"hello" * 9)]:
        (tmp_path / name).write_bytes(part)
        with pytest.raises(ModelFileError, match="cut short"):
            midfea.load(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="no such model file"):
        midfea.load(tmp_path / "missing")


def test_unfitted_and_unwritable(tmp_path, saved):
    with pytest.raises(ValueError, match="not fitted"):
        MidFea().save(tmp_path / "m.midfea")
    with pytest.raises(OSError, match="there is no folder"):
        saved[0].save(tmp_path / "nowhere" / "m.midfea")
    with pytest.raises(OSError, match="it is a folder"):
        saved[0].save(tmp_path)
