"""Exported models: onnxruntime answers as the library does, with standard operators only."""

import itertools
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import midfea as library
from command import fails_in_one_line, midfea
from midfea import MidFeaClassifier, MidFeaRegressor, checksum, stages
from midfea.datasets import load_surfaces
from midfea.engines import Projection
from midfea.extras import MissingExtra, install_line
from midfea.learning.head import fit_linear_head
from midfea.learning.network.model import PIXELS
from midfea.learning.ns_layer import NSLayer
from midfea.learning.parts import ClassifierParts
from midfea.learning.principal import principal_directions
from midfea.learning.validation import no_validation
from midfea.model_file import ModelFileError
from midfea.pictures.images import Images
from midfea.pictures.picture import make_picture
from midfea.pictures.resize import resize
from ties import exact_descriptors, tied_words

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from midfea.export import to_onnx, write_onnx  # noqa: E402
from midfea.export.graph import Graph, Value  # noqa: E402
from midfea.export.model import build  # noqa: E402
from midfea.export.pixels import Size, resizing, to_grey  # noqa: E402
from midfea.export.runtime import OnnxClassifier  # noqa: E402

SHAPES = [(48, 48), (37, 54), (64, 30), (33, 59), (24, 25)]
SMALL = {"n_filters": 5, "n_words": 24, "n_samples": 2000, "max_side": 44, "random_state": 0}
LOGIT_SCALE = 4.0  # larger than so few images allow: differences show
DATA = Path(__file__).parent / "data"
V1 = np.load(DATA / "v1-answers.npz")  # images, and what models of file format 1 answered


@pytest.fixture(scope="module")
def drawn():
    """Surfaces of three kinds cut to different shapes, in colour, and their labels."""
    data = load_surfaces(n_per_class=8, size=64, random_state=2)
    indices = np.flatnonzero(np.isin(data.target, (0, 3, 5)))
    tinted = [data.images[i][:, :, None] * np.array([1.0, 0.8, 0.6]) for i in indices]
    shapes = [SHAPES[i % len(SHAPES)] for i in indices]
    images = [image[:h, :w].astype(np.uint8) for image, (h, w) in zip(tinted, shapes, strict=True)]
    return images, np.array(data.target_names)[data.target[indices]]


@pytest.fixture(scope="module")
def extractor(drawn):
    return fit(*drawn, projection=None).extractor_


def fit(images, labels, **settings):
    return MidFeaClassifier(**{**SMALL, **settings}).fit(images, labels)


def confident(parts):
    return replace(parts, head=replace(parts.head, logit_scale=LOGIT_SCALE))


def varied(extractor, images, labels, projection=None, n_neurons=0, **changes):
    """A classifier with the filters and words of the extractor, and with `changes` to its chain."""
    rng = np.random.RandomState(0)
    chain = replace(extractor.chain, **changes)
    pictures = extractor.pictures(Images(images))
    n_cells = chain.n_cells(chain.scaled_shapes(pictures[0].shape)[0])
    extractor = replace(extractor, chain=chain, n_cells=n_cells)
    codes = np.stack(list(extractor.pooled_codes(pictures, 2)))
    extractor = replace(extractor, projection=projected(codes, projection, rng))
    features = extractor.projection.apply(codes)
    layer = neurons(features, n_neurons, rng) if n_neurons else None
    inputs = layer.activations(features) if layer else features
    classes, numbers = np.unique(labels, return_inverse=True)
    head = fit_linear_head(inputs, numbers, 10.0, LOGIT_SCALE, np.asarray)
    return ClassifierParts(extractor, layer, head, None, classes, no_validation(len(classes)))


def projected(codes, kind, rng, n_components=30):
    if kind is None:
        return Projection()
    if kind == "pca":
        mean, directions = principal_directions(codes, min(n_components, len(codes)))
        return Projection(directions.astype(np.float32), mean.astype(np.float32))
    return Projection(stages.projection_matrix(codes.shape[1], n_components, kind, rng))


def neurons(features, n_neurons, rng):
    """A layer that was not learned: the file computes it all the same."""
    W = rng.normal(scale=0.2, size=(n_neurons, features.shape[1])).astype(np.float32)
    b = rng.normal(size=n_neurons).astype(np.float32)
    responses = np.zeros((n_neurons, 3), dtype=np.float32)
    return NSLayer(W, b, np.ascontiguousarray(W.T), responses, features.mean(axis=0))


def session(parts):
    made = build(parts)
    assert {entry.domain for entry in made.opset_import} == {""}
    assert {node.domain for node in nodes(made.graph)} == {""}
    return run_by_onnxruntime(made)


def run_by_onnxruntime(made):
    content = made.SerializeToString()
    return onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])


def nodes(graph):
    """Also those inside loops and branches."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from nodes(attribute.g)


def answers(run, images):
    """Grey images as three equal channels."""
    stacks = [image if image.ndim == 3 else np.repeat(image[:, :, None], 3, axis=2) for image in images]
    return np.concatenate([run.run(None, {"images": stack[None]})[0] for stack in stacks])


def probabilities(parts, images):
    pictures = parts.extractor.pictures(Images(images))
    return parts.probabilities(parts.answers(pictures, 2).scores)


def assert_same(parts, images, atol=1e-4):
    by_library = probabilities(parts, images)
    by_file = answers(session(parts), images)
    np.testing.assert_allclose(by_file, by_library, atol=atol)
    assert (by_file.argmax(axis=1) == by_library.argmax(axis=1)).all()
    assert np.ptp(by_library, axis=0).max() > 0.2  # there is something to get wrong


ENCODINGS = ("vq", "soft", "llc")
PARTITIONS = ("pyramid", "overlapping pyramid", (2, 3), {"size": 16, "step": 6})
PROJECTIONS = ("sparse", "gaussian", "uniform", "pca", None)


@pytest.mark.parametrize(
    "number, encoding, partition",
    [(i, *pair) for i, pair in enumerate(itertools.product(ENCODINGS, PARTITIONS))],
)
def test_every_encoding_partition_and_projection(extractor, drawn, number, encoding, partition):
    """Every encoding with every partition, and every projection with neurons and without.

    A projection sees a row of numbers, whatever they mean: the two pairs go side by side.
    """
    images, labels = drawn
    if isinstance(partition, dict):  # such cells need images of one size
        images = [np.asarray(Image.fromarray(image).resize((40, 40))) for image in images]
    projection, n_neurons = PROJECTIONS[number % 5], (0, 8)[number % 2]
    changes = {"encoding": encoding, "partition": partition}
    assert_same(varied(extractor, images, labels, projection, n_neurons, **changes), images)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("rounded", [False, True])
def test_sums_over_scales(extractor, drawn, encoding, rounded):
    """With scaled images as they are, and rounded as in models of file format 1."""
    changes = {"encoding": encoding, "rounded": rounded, "pooling": "sum", "scales": (1.0, 0.8, 0.5)}
    assert_same(varied(extractor, *drawn, **changes), drawn[0])


@pytest.mark.parametrize("preset", ["fast", "best", "paper"])
def test_presets(drawn, preset):
    assert_same(confident(fit(*drawn, preset=preset, max_side=40, finetune=False).parts_), drawn[0])


@pytest.mark.parametrize(
    "settings",
    [
        {"padding": "valid", "pairs": False, "window": 3},
        {"rectify": False, "floor": 0.8},
        {"filter_size": 4, "scales": (1.5, 1.0, 0.4), "encoding": "soft", "n_neighbors": 3},
        {"scales": (1.0, 0.3, 0.1), "window": 4},  # the last is too small for some, or all
        {"n_words": 3, "encoding": "vq", "n_filters": 3},
    ],
)
def test_other_settings(drawn, settings):
    assert_same(confident(fit(*drawn, projection=None, **settings).parts_), drawn[0])


@pytest.mark.parametrize("rounded", [False, True])
def test_tall_wide_and_large_images(extractor, drawn, rounded):
    parts = varied(extractor, *drawn, rounded=rounded, scales=(1.0, 0.6), encoding="llc")
    large = load_surfaces(n_per_class=2, size=400, random_state=0).images
    shapes = [(400, 60), (60, 400), (400, 400), (123, 200), (45, 44)]
    images = [image[:height, :width] for image, (height, width) in zip(large, shapes, strict=False)]
    assert_same(parts, [*images, *drawn[0]])


def test_two_classes_and_flat_images(drawn):
    images, labels = drawn
    two = np.isin(labels, np.unique(labels)[:2])
    chosen = [image for image, is_one in zip(images, two, strict=True) if is_one]
    model = fit(chosen, labels[two], preset="fast", n_words=24)
    flat = [np.full((30, 50, 3), value, dtype=np.uint8) for value in (0, 7, 255)]
    assert_same(confident(model.parts_), [*chosen, *flat])


def test_many_images_at_once_give_what_each_gives_alone(extractor, drawn):
    images, labels = drawn
    parts = varied(extractor, images, labels, "sparse", scales=(1.0, 0.5))
    batch = np.stack([image for image in images if image.shape == images[1].shape])
    assert len(batch) > 1
    run = session(parts)
    (at_once,) = run.run(None, {"images": batch})
    np.testing.assert_allclose(at_once, answers(run, batch), atol=1e-6)
    np.testing.assert_allclose(at_once, probabilities(parts, batch), atol=1e-4)


def test_large_images_are_encoded_in_blocks(extractor):
    data = load_surfaces(n_per_class=2, size=130, random_state=0)
    assert_same(varied(replace(extractor, max_side=None), data.images, data.target), data.images)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_near_ties_are_decided_as_the_library_does(extractor, drawn, encoding):
    """Two words equally near to a descriptor, to what float32 can tell: many of them."""
    images, labels = drawn
    extractor = replace(extractor, max_side=None)  # whole pixels: the filters' responses are exact
    chain = replace(extractor.chain, encoding=encoding)
    points = [exact_descriptors(make_picture(image, None).grey, chain) for image in images]
    words = [tied_words(of_image, chain.n_nearest, 10) for of_image in points]
    parts = varied(extractor, images, labels, encoding=encoding, codebook=np.concatenate(words))
    assert_same(parts, images, atol=2e-6)


@pytest.mark.parametrize("name", ["paper", "fast", "finetuned"])
def test_models_of_format_1(name):
    """Also the answers that they gave when they were written."""
    images = [V1[key] for key in V1 if key.startswith("image.")]
    eight_bit = [i for i, image in enumerate(images) if image.dtype == np.uint8]
    images, then = [images[i] for i in eight_bit], V1[f"{name}.probabilities"][eight_bit]
    parts = library.load(DATA / f"{name}-v1.midfea").parts_
    assert_same(parts, images)
    np.testing.assert_allclose(answers(session(parts), images), then, atol=1e-4)


@pytest.mark.parametrize(
    "in_colour, changes",
    [
        (True, {"rounded": False, "mirror": False, "view_shift": 0, "step": 2}),
        (False, {"rounded": True, "mirror": False, "view_shift": 2, "step": 1}),
        (True, {"rounded": True, "mirror": True, "view_shift": 2, "step": 2}),
        (False, {"rounded": False, "mirror": True, "view_shift": 0, "step": 1}),
    ],
)
def test_network(drawn, in_colour, changes):
    """With colours, mirror images and shifted views or without them, both steps; every value twice."""
    parts = library.load(DATA / "finetuned-v1.midfea").parts_
    old = parts.network.network
    shape = (PIXELS**2 * (3 if in_colour else 1), old.pixels.shape[1])
    pixels = np.random.RandomState(0).normal(scale=old.pixels.std(), size=shape).astype(np.float32)
    network = replace(old, pixels=pixels, **{key: np.array(value) for key, value in changes.items()})
    head = replace(parts.network, network=network, weights=np.array([1.0, 1.5, 0.7]))  # all count
    images = [V1[f"image.{key}"] for key in ("colour", "wide", "large", "grey")]
    assert_same(replace(parts, network=head), [*images, *drawn[0][:4]])


@pytest.mark.parametrize("settings", [{}, {"regression": "expectation", "selectivity": 6}])
def test_regressor(drawn, settings):
    images, _ = drawn
    brightness = np.array([image.mean() for image in images])
    model = MidFeaRegressor(preset="fast", n_words=24, n_samples=3000, random_state=0, **settings)
    model.fit(images, brightness)
    by_file = answers(session(model.parts_), images)
    np.testing.assert_allclose(by_file, model.predict(images), atol=1e-4 * np.ptp(brightness))


@pytest.mark.parametrize("rounded", [False, True])
def test_resizing_is_the_librarys(rounded):
    """Larger and smaller, tall and wide; to the last bit if rounded."""
    rng = np.random.RandomState(0)
    for height, width in ((20, 31), (64, 64), (7, 50), (1, 3)):
        g = Graph()
        source = Value(g, "images", np.uint8)
        after = Size(g.constant(np.array([height])), g.constant(np.array([width])))
        weights = resizing(Size(source.side(1), source.side(2)), after, rounded)
        resized = g.scan(lambda image, weights=weights: [weights.apply(to_grey(image))], source)[0]
        made = g.model(source, ("n", "h", "w", 3), {"resized": (resized, ("n", height, width))}, {})
        run = run_by_onnxruntime(made)
        for before in ((90, 40), (40, 90), (400, 60), (64, 60), (13, 13), (height, 80)):
            image = rng.randint(256, size=before).astype(np.uint8)
            by_library = resize(image, (height, width), rounded)
            rtol = 0 if rounded else 1e-7
            np.testing.assert_allclose(answers(run, [image])[0], by_library, rtol=rtol)


@pytest.fixture(scope="module")
def exported(drawn, tmp_path_factory):
    """A fitted model, and the folder in which the command wrote it as model.onnx."""
    folder = tmp_path_factory.mktemp("exported")
    model = fit(*drawn, preset="fast", n_words=24)
    model.save(folder / "model.midfea")
    result = midfea("export", "model.midfea", "-o", "model.onnx", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "model.onnx" in result.stdout
    return model, folder


def test_the_command_writes_what_onnx_classifier_runs(exported, drawn):
    (images, _), (model, folder) = drawn, exported
    classifier = OnnxClassifier(folder / "model.onnx")
    assert classifier.classes_.tolist() == model.classes_.tolist()
    assert (classifier.max_side, classifier.min_side) == (model.max_side, model.min_side)
    assert (classifier.predict(images) == model.predict(images)).all()
    deep = images[0][:, :, 0].astype(np.uint16) * 257
    np.testing.assert_allclose(classifier.predict_proba([deep]), model.predict_proba([deep]), atol=0.05)
    clear = [np.dstack([images[0], np.full(images[0].shape[:2], 255, dtype=np.uint8)])]
    np.testing.assert_allclose(classifier.predict_proba(clear), model.predict_proba(clear), atol=1e-4)
    with pytest.raises(ValueError, match=r"image 1 has 5x40 pixels, at least 7x7"):
        classifier.predict([images[0], np.zeros((5, 40), dtype=np.uint8)])
    with pytest.raises(ValueError, match="image 0 was reduced already: give the names of files"):
        classifier.predict([make_picture(images[0], 40)])
    (folder / "broken.png").write_bytes(b"no image")
    with pytest.raises(ValueError, match=r"^\S*broken.png: not a readable image"):
        classifier.predict([folder / "broken.png"])


def test_the_command_predicts_with_exported_models(exported, drawn):
    images, folder = drawn[0], exported[1]
    photos = folder / "photos"
    photos.mkdir()
    for index, image in enumerate(images[:8]):
        Image.fromarray(image).save(photos / f"{index}.png")
    Image.fromarray(images[8][:, :, 0]).resize((300, 200)).save(photos / "large-grey.png")
    by_library, by_file = (
        midfea("predict", f"model.{ending}", "photos", cwd=folder) for ending in ("midfea", "onnx")
    )
    assert by_file.returncode == by_library.returncode == 0, by_file.stderr
    assert by_file.stdout == by_library.stdout


def test_files_that_cannot_be_used(exported, drawn, tmp_path):
    (images, _), (model, folder) = drawn, exported
    nowhere = midfea("export", folder / "model.midfea", "-o", tmp_path / "no" / "m.onnx")
    fails_in_one_line(nowhere, "there is no folder")
    made = to_onnx(model)
    (tmp_path / "half.onnx").write_bytes(made.SerializeToString()[:3000])
    about = json.loads(made.metadata_props[0].value)
    assert about["classes"] == model.classes_.tolist()
    made.metadata_props[0].value = json.dumps(about | {"format": 3})
    (tmp_path / "new.onnx").write_bytes(made.SerializeToString())
    del made.metadata_props[:]
    (tmp_path / "strange.onnx").write_bytes(made.SerializeToString())
    regressor = MidFeaRegressor(preset="fast", n_words=8, random_state=0)
    write_onnx(regressor.fit(images, [image.mean() for image in images]), tmp_path / "numbers.onnx")
    for name, message in (
        ("half", "half.onnx: .* cut short"),
        ("new", "new.onnx: .* install a newer midfea"),
        ("strange", "strange.onnx: .* not one of midfea's: .* midfea export"),
        ("numbers", "'MidFeaRegressor', a classifier is needed"),
        ("none", "no such model file"),
    ):
        with pytest.raises((ValueError, OSError), match=message):
            OnnxClassifier(tmp_path / f"{name}.onnx")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def resealed(model, target, **changes):
    """The exported model with other words about itself, sealed anew."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    about = json.loads(model.metadata_props[0].value) | {"checksum": checksum.EMPTY} | changes
    model.metadata_props[0].value = json.dumps(about)
    target.write_bytes(checksum.seal(model.SerializeToString()))


def test_descriptions_that_cannot_be_trusted(exported, tmp_path):
    made = to_onnx(exported[0])
    path = tmp_path / "m.onnx"
    for changes, message in (
        ({"classes": ["a", "b"]}, "numbers for 2 classes"),
        ({"classes": ["b", "a", "a"]}, "sorted"),
        ({"classes_kind": "X"}, "text or numbers"),
        ({"max_side": 1e300}, "max_side must be a whole number"),
        ({"min_side": None}, "min_side must be a whole number"),
        ({"class": "os.system"}, "a classifier is needed"),
        ({"class": ["x"]}, "a classifier is needed"),
    ):
        resealed(made, path, **changes)
        with pytest.raises(ModelFileError, match=message):
            OnnxClassifier(path)
    resealed(made, path)
    assert OnnxClassifier(path).classes_.tolist() == exported[0].classes_.tolist()


def test_loops_are_refused(exported, tmp_path):
    made = to_onnx(exported[0])
    body = onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", ["go"], ["on"])],
        "endless",
        [
            onnx.helper.make_tensor_value_info("turn", onnx.TensorProto.INT64, []),
            onnx.helper.make_tensor_value_info("go", onnx.TensorProto.BOOL, []),
        ],
        [onnx.helper.make_tensor_value_info("on", onnx.TensorProto.BOOL, [])],
    )
    made.graph.node.append(onnx.helper.make_node("Loop", ["", "yes"], [], body=body))
    resealed(made, tmp_path / "m.onnx")
    with pytest.raises(ModelFileError, match="holds loops"):
        OnnxClassifier(tmp_path / "m.onnx")


def test_a_flipped_bit_is_always_noticed(exported, tmp_path):
    content, draw = (exported[1] / "model.onnx").read_bytes(), np.random.RandomState(0)
    for place in [
        *range(12),
        *draw.randint(len(content), size=40),
        *range(len(content) - 200, len(content), 7),
    ]:
        damaged = bytearray(content)
        damaged[place] ^= 1 << draw.randint(8)
        (tmp_path / "m.onnx").write_bytes(damaged)
        with pytest.raises(ModelFileError):
            OnnxClassifier(tmp_path / "m.onnx")


def test_a_file_saved_by_onnx_itself_is_sealed(exported, tmp_path):
    onnx.save(to_onnx(exported[0]), tmp_path / "m.onnx")
    assert checksum.is_sound((tmp_path / "m.onnx").read_bytes())


def test_without_the_extra_it_says_what_to_install(exported, monkeypatch):
    with pytest.raises(TypeError, match="cannot be exported"):
        to_onnx("model")
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    message = f"an ONNX file needs onnx and onnxruntime: {install_line('onnx')}"
    with pytest.raises(MissingExtra, match=f"^{re.escape(message)}$"):
        to_onnx(exported[0])
    with pytest.raises(MissingExtra, match=f"^{re.escape(message)}$"):
        OnnxClassifier(exported[1] / "model.onnx")


@pytest.mark.data
@pytest.mark.parametrize("settings", [{"preset": "fast"}, {"preset": "best", "finetune": False}, {}])
def test_real_photos_of_mixed_sizes(data_dir, settings, tmp_path):
    """Photos of sign_digits, cut and resized at random: some descriptors are near ties of words."""
    rng = np.random.RandomState(0)
    paths = sorted((data_dir / "sign_digits").rglob("*.JPG"))
    paths = [paths[i] for i in rng.permutation(len(paths))[:400]]
    model = MidFeaClassifier(**settings, n_samples=20_000, random_state=0).set_params(n_words=200)
    model.fit(paths[:200], [path.parent.name for path in paths[:200]])
    images = []
    for path in paths[200:]:
        photo = Image.open(path).convert("RGB").crop((*rng.randint(30, size=2).tolist(), 100, 100))
        size = photo.size if rng.randint(3) else tuple(rng.randint(100, 400, size=2).tolist())
        images.append(np.asarray(photo.resize(size)))
    write_onnx(model, tmp_path / "model.onnx")
    by_library, by_file = (
        m.predict_proba(images) for m in (model, OnnxClassifier(tmp_path / "model.onnx"))
    )
    assert (by_library.argmax(axis=1) == by_file.argmax(axis=1)).all()
    np.testing.assert_allclose(by_file, by_library, atol=1e-4)
