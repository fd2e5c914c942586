"""Exported models: onnxruntime answers as the library does, with standard operators only."""

import json
import sys
from copy import copy
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from command import fails_in_one_line, midfea
from midfea import MidFeaClassifier, MidFeaRegressor
from midfea.datasets import load_surfaces
from midfea.estimators import finetuned
from midfea.learning.network.model import PIXELS
from midfea.pictures.images import Images, picture, resize
from ties import exact_descriptors, tied_words

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from midfea.export import MissingExtra, pixels, to_onnx, write_onnx  # noqa: E402
from midfea.export.graph import Graph, Value  # noqa: E402
from midfea.export.pixels import Size  # noqa: E402
from midfea.export.runtime import OnnxClassifier  # noqa: E402

SHAPES = [(48, 48), (37, 54), (64, 30), (33, 59), (24, 25)]


@pytest.fixture(scope="module")
def drawn():
    """Surfaces of three kinds cut to different shapes, in colour, and their labels."""
    data = load_surfaces(n_per_class=8, size=64, random_state=2)
    tint = np.array([1.0, 0.8, 0.6])
    chosen = np.flatnonzero(np.isin(data.target, (0, 3, 5)))
    images = []
    for index in chosen:
        height, width = SHAPES[index % len(SHAPES)]
        images.append((np.asarray(data.images[index])[:height, :width, None] * tint).astype(np.uint8))
    return images, np.array(data.target_names)[data.target[chosen]]


@pytest.fixture(scope="module")
def squares(drawn):
    """The same, all of one size: overlapping cells need that."""
    images, labels = drawn
    channels = [image.transpose(2, 0, 1) for image in images]
    return [np.stack([resize(c, (40, 40)) for c in three], axis=2) for three in channels], labels


def session(model):
    made = to_onnx(model)
    onnx.checker.check_model(made, full_check=True)
    assert {entry.domain for entry in made.opset_import} == {""}
    assert {node.domain for node in nodes(made.graph)} == {""}
    return run_by_onnxruntime(made)


def run_by_onnxruntime(made):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    content = made.SerializeToString()
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def nodes(graph):
    """Also those inside loops and branches."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from nodes(attribute.g)


def answers(run, images):
    return np.concatenate([run.run(None, {"images": image[None]})[0] for image in images])


def assert_same(model, images, atol=1e-4):
    mine = model.predict_proba(images)
    theirs = answers(session(model), images)
    np.testing.assert_allclose(theirs, mine, atol=atol)
    assert (theirs.argmax(axis=1) == mine.argmax(axis=1)).all()
    assert np.ptp(mine, axis=0).max() > 0.2  # there is something to get wrong


def fit(images, labels, **settings):
    small = {"n_filters": 5, "n_words": 24, "n_samples": 2000, "max_side": 44, "random_state": 0}
    model = MidFeaClassifier(**{**small, **settings}).fit(images, labels)
    model.temperature_ = 4.0  # surer than so few images allow: differences show
    return model


@pytest.fixture(scope="module")
def fitted(drawn, squares):
    """A model for images of mixed sizes, and one for images of one size, for `varied`."""
    return {name: fit(*data, projection=None) for name, data in (("mixed", drawn), ("one", squares))}


def varied(model, images, labels, **settings):
    """The same filters and words, everything after them learned anew: the quicker part of `fit`."""
    model = copy(model).set_params(**settings)
    model.settings_ = model.get_params(deep=False)
    del model.n_cells_
    model.n_cells_ = len(model._pooled(model._grey(Images(images), 0))) // len(model.codebook_)
    model._learn_projection(Images(images), np.random.RandomState(0))
    model._fit_svm(model._features(Images(images)), np.unique(labels, return_inverse=True)[1])
    model.temperature_ = 4.0
    return model


@pytest.mark.parametrize("encoding", ["vq", "soft", "llc"])
@pytest.mark.parametrize(
    "partition", ["pyramid", "overlapping pyramid", (2, 3), {"size": 16, "step": 6}]
)
@pytest.mark.parametrize("projection", ["random", "gaussian", "uniform", "pca", None])
@pytest.mark.parametrize("selectivity", [None, 8])
def test_every_encoding_partition_and_projection(
    fitted, drawn, squares, encoding, partition, projection, selectivity
):
    size, data = ("one", squares) if isinstance(partition, dict) else ("mixed", drawn)
    settings = {"encoding": encoding, "partition": partition, "projection": projection}
    model = varied(fitted[size], *data, n_components=30, selectivity=selectivity, **settings)
    assert_same(model, data[0])


@pytest.mark.parametrize("preset", ["fast", "best", "paper"])
@pytest.mark.parametrize("max_side", [40, None])
def test_presets(drawn, preset, max_side):
    images, labels = drawn
    settings = {"n_words": 24, "finetune": False}
    assert_same(fit(images, labels, preset=preset, max_side=max_side, **settings), images)


@pytest.mark.parametrize(
    "settings",
    [
        {"padding": "valid", "pairs": False, "window": 3},
        {"rectify": False, "floor": 0.8},
        {"pooling": "sum", "encoding": "llc", "scales": (0.8, 0.5)},
        {"filter_size": 4, "scales": (1.5, 1.0, 0.4), "encoding": "soft", "n_neighbors": 3},
        {"scales": (1.0, 0.3, 0.1), "window": 4},  # the last is too small for some, or all
        {"n_words": 3, "encoding": "vq", "n_filters": 3},
    ],
)
def test_other_settings(drawn, settings):
    images, labels = drawn
    assert_same(fit(images, labels, projection=None, **settings), images)


def test_two_classes_and_flat_images(drawn):
    images, labels = drawn
    two = np.isin(labels, np.unique(labels)[:2])
    chosen = [image for image, wanted in zip(images, two, strict=True) if wanted]
    model = fit(chosen, labels[two], preset="fast", n_words=24)
    flat = [np.full((30, 50, 3), value, dtype=np.uint8) for value in (0, 7, 255)]
    assert_same(model, [*chosen, *flat])


def test_many_images_at_once_give_what_each_gives_alone(drawn):
    images, labels = drawn
    model = fit(images, labels, preset="best", n_words=24, finetune=False)
    batch = np.stack([image for image in images if image.shape == images[1].shape])
    assert len(batch) > 1
    run = session(model)
    (together,) = run.run(None, {"images": batch})
    np.testing.assert_allclose(together, answers(run, batch), atol=1e-6)
    np.testing.assert_allclose(together, model.predict_proba(batch), atol=1e-4)


def test_large_images_are_encoded_in_blocks():
    data = load_surfaces(n_per_class=2, size=130, random_state=0)
    images = [np.repeat(np.asarray(image)[:, :, None], 3, axis=2) for image in data.images]
    assert_same(fit(images, data.target, max_side=None, projection=None), images)


@pytest.mark.parametrize("encoding", ["vq", "soft", "llc"])
def test_near_ties_are_decided_as_the_library_does(fitted, drawn, encoding):
    """Two words equally near to a descriptor, to what float32 can tell: many of them."""
    images, labels = drawn
    model = copy(fitted["mixed"]).set_params(encoding=encoding)
    model.settings_ = model.get_params(deep=False)
    chain = model._chain
    points = [exact_descriptors(model._grey(Images([image]), 0), chain) for image in images]
    words = [tied_words(of_image, chain.n_nearest, 10) for of_image in points]
    model.codebook_ = np.concatenate(words)
    assert_same(varied(model, images, labels), images, atol=2e-6)


def test_finetuned(drawn, few_steps, monkeypatch, tmp_path):
    """With the network: with colours, mirrored copies and moved views or without them, both steps."""
    monkeypatch.setattr(finetuned, "MIRRORED", (False,))
    images, labels = drawn
    model = fit(images, labels, preset="fast", n_words=24, finetune=True)
    model.network_weights_ = np.array([1.0, 1.5, 0.7])  # all count, whatever so short a training found
    in_colour = model.network_
    assert in_colour.n_planes == 3
    write_onnx(model, tmp_path / "model.onnx")
    classifier = OnnxClassifier(tmp_path / "model.onnx")
    np.testing.assert_allclose(classifier.predict_proba(images), model.predict_proba(images), atol=1e-4)
    with pytest.raises(ValueError, match="give the names of files"):
        classifier.predict([picture(image, 40) for image in images])
    of_grey = in_colour.pixels.reshape(PIXELS**2, 3, -1)[:, 0]
    for network in (in_colour, replace(in_colour, pixels=of_grey)):
        for mirror, moved, step in ((False, 0, 2), (True, 2, 1)):
            settled = {"mirror": mirror, "moved": moved, "step": step}
            model.network_ = replace(network, **{key: np.array(value) for key, value in settled.items()})
            assert_same(model, images)


@pytest.mark.parametrize("settings", [{}, {"regression": "expectation", "selectivity": 6}])
def test_regressor(drawn, settings):
    images, _ = drawn
    brightness = np.array([image.mean() for image in images])
    model = MidFeaRegressor(preset="fast", n_words=24, n_samples=3000, random_state=0, **settings)
    model.fit(images, brightness)
    mine, theirs = model.predict(images), answers(session(model), images)
    np.testing.assert_allclose(theirs, mine, atol=1e-4 * np.ptp(brightness))


def test_resizing_is_pillows_to_the_last_bit():
    """Larger and smaller, tall and wide: Pillow 13 begins with the height of some."""
    rng = np.random.RandomState(0)
    for height, width in ((20, 31), (64, 64), (7, 50), (1, 3)):
        g = Graph()
        source = Value(g, "images", np.uint8)
        after = Size(g.constant(np.array([height])), g.constant(np.array([width])))
        weights = pixels.resizing(Size(source.side(1), source.side(2)), after)
        copies = g.scan(lambda image: [pixels.resize(pixels.to_grey(image), weights)], source)[0]  # noqa: B023
        made = g.model(source, ("n", "h", "w", 3), copies, "copies", ("n", height, width), {})
        run = run_by_onnxruntime(made)
        for before in ((90, 40), (40, 90), (200, 33), (64, 60), (13, 13), (height, 80)):
            image = rng.randint(256, size=before).astype(np.uint8)
            (found,) = run.run(None, {"images": np.repeat(image[None, :, :, None], 3, axis=3)})
            np.testing.assert_array_equal(found[0], resize(image, (height, width)))


def test_the_command_writes_what_predict_runs(drawn, tmp_path):
    images, labels = drawn
    model = fit(images, labels, preset="fast", n_words=24)
    model.save(tmp_path / "model.midfea")
    photos = tmp_path / "photos"
    photos.mkdir()
    for index, image in enumerate(images[:8]):
        Image.fromarray(image).save(photos / f"{index}.png")
    Image.fromarray(images[8][:, :, 0]).resize((300, 200)).save(photos / "large-grey.png")
    result = midfea("export", "model.midfea", "-o", "other.onnx", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "other.onnx" in result.stdout
    expected = midfea("predict", "model.midfea", "photos", cwd=tmp_path)
    found = midfea("predict", "other.onnx", "photos", cwd=tmp_path)
    assert found.returncode == expected.returncode == 0, found.stderr
    assert found.stdout == expected.stdout
    classifier = OnnxClassifier(tmp_path / "other.onnx")
    assert classifier.classes_.tolist() == model.classes_.tolist()
    assert (classifier.predict(images) == model.predict(images)).all()
    deep = images[0][:, :, 0].astype(np.uint16) * 257
    np.testing.assert_allclose(classifier.predict_proba([deep]), model.predict_proba([deep]), atol=0.05)
    with pytest.raises(ValueError, match=r"image 1 has 5x40 pixels, at least 7x7"):
        classifier.predict([images[0], np.zeros((5, 40), dtype=np.uint8)])


def test_files_that_cannot_be_used(drawn, tmp_path):
    images, labels = drawn
    fit(images, labels, n_words=8, projection=None).save(tmp_path / "model.midfea")
    nowhere = midfea("export", tmp_path / "model.midfea", "-o", tmp_path / "no" / "m.onnx")
    fails_in_one_line(nowhere, "there is no folder")
    made = to_onnx(fit(images, labels, n_words=8, projection=None))
    (tmp_path / "half.onnx").write_bytes(made.SerializeToString()[:3000])
    del made.metadata_props[:]
    (tmp_path / "strange.onnx").write_bytes(made.SerializeToString())
    model = MidFeaRegressor(preset="fast", n_words=8, random_state=0)
    write_onnx(model.fit(images, [image.mean() for image in images]), tmp_path / "numbers.onnx")
    for name, words in (
        ("half", "half.onnx: .* cut short"),
        ("strange", "strange.onnx: .* not one of midfea's: .* midfea export"),
        ("numbers", "MidFeaRegressor, a classifier is needed"),
        ("none", "no such model file"),
    ):
        with pytest.raises((ValueError, OSError), match=words):
            OnnxClassifier(tmp_path / f"{name}.onnx")
    photo = tmp_path / "photo.png"
    Image.fromarray(images[0]).save(photo)
    fails_in_one_line(midfea("predict", tmp_path / "strange.onnx", photo), "not one of midfea's")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_newer_formats_are_refused(drawn, tmp_path):
    images, labels = drawn
    made = to_onnx(fit(images, labels, n_words=8, projection=None))
    about = json.loads(made.metadata_props[0].value)
    assert about["classes"] == sorted(set(labels.tolist()))
    made.metadata_props[0].value = json.dumps(about | {"format": 2})
    (tmp_path / "new.onnx").write_bytes(made.SerializeToString())
    with pytest.raises(ValueError, match="install a newer midfea"):
        OnnxClassifier(tmp_path / "new.onnx")


def test_without_the_extra_it_says_what_to_install(drawn, tmp_path, monkeypatch):
    images, labels = drawn
    model = fit(images, labels, n_words=8, projection=None)
    with pytest.raises(TypeError, match="cannot be exported"):
        to_onnx("model")
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtra, match=r'pip install "midfea\[onnx\]"'):
        to_onnx(model)
    with pytest.raises(MissingExtra, match=r'pip install "midfea\[onnx\]"'):
        OnnxClassifier(tmp_path / "model.onnx")


@pytest.mark.data
@pytest.mark.parametrize(
    "settings",
    [
        {"preset": "fast", "n_words": 200},
        {"preset": "best", "n_words": 200, "finetune": False},
        {"preset": "paper", "n_words": 300},
        {"encoding": "soft", "n_words": 200, "partition": (3, 3), "projection": "pca"},
        {"n_words": 200, "selectivity": 20},
    ],
    ids=["fast", "best", "paper", "soft", "neurons"],
)
def test_real_photos_of_mixed_sizes(data_dir, settings, tmp_path, capsys):
    """200 photos of hands, cut and resized at random: some descriptors are near ties of words."""
    rng = np.random.RandomState(0)
    paths = sorted((data_dir / "sign_digits").rglob("*.JPG"))
    paths = [paths[i] for i in rng.permutation(len(paths))[:400]]
    model = MidFeaClassifier(**settings, n_samples=20_000, random_state=0)
    model.fit(paths[:200], [path.parent.name for path in paths[:200]])
    images = [cut(path, rng) for path in paths[200:]]
    write_onnx(model, tmp_path / "model.onnx")
    mine, theirs = (m.predict_proba(images) for m in (model, OnnxClassifier(tmp_path / "model.onnx")))
    apart = np.abs(mine - theirs).max(axis=1)
    same = mine.argmax(axis=1) == theirs.argmax(axis=1)
    with capsys.disabled():
        print(f"\n{same.sum()} of 200 classes the same; probabilities differ by {np.median(apart):.1e} "
              f"(median), {apart.max():.1e} (most)")  # fmt: skip
    assert same.all()
    assert apart.max() <= 1e-4


def cut(path, rng):
    """A part of a photo, every third one enlarged."""
    photo = Image.open(path).convert("RGB")
    left, top = rng.randint(photo.width // 3), rng.randint(photo.height // 3)
    part = photo.crop((left, top, photo.width, photo.height))
    if rng.randint(3) == 0:
        part = part.resize(tuple(rng.randint(100, 400, size=2).tolist()))
    return np.asarray(part)
