"""The paper's figures: what is computed for them, and that the pictures are there to be seen."""

import json
import sys
from dataclasses import replace
from functools import partial
from importlib import import_module

import numpy as np
import pytest
from PIL import Image
from sklearn.utils import Bunch

from midfea import MidFea, stages
from midfea.baselines.raw_pixels import raw_pixels
from midfea.datasets import load_surfaces
from midfea.reproduce import figures
from midfea.reproduce.protocols import PROTOCOLS

pytest.importorskip("matplotlib")
pytest.importorskip("cv2")

from midfea.baselines.local_features import sift_maps
from midfea.reproduce.figures import curves, maps, neurons
from midfea.view.style import LOOKS, new_figure, save


def check_pictures(paths):
    """Every PNG opens and is neither blank nor tiny; every PDF is one; both kinds of each."""
    stems = {kind: {p.stem for p in paths if p.suffix == kind} for kind in (".png", ".pdf")}
    assert stems[".png"] == stems[".pdf"] != set()
    for path in paths:
        if path.suffix == ".png":
            pixels = np.asarray(Image.open(path).convert("L"))
            assert min(pixels.shape) > 150
            assert pixels.std() > 5
            assert (pixels == 255).mean() > 0.02  # the background is white
        elif path.suffix == ".pdf":
            assert path.read_bytes().startswith(b"%PDF")


@pytest.fixture
def no_data(monkeypatch):
    """Drawn images under the names that the figures ask for."""
    drawn = load_surfaces(n_per_class=6, size=64, random_state=0)
    named = [[f"{name}/image_{i:04d}" for i in range(6)] for name in maps.CLASSES]
    for name in maps.IMAGES:
        named[maps.CLASSES.index(name.split("/")[0])][0] = name
    paths = [f"{name}.jpg" for names in named for name in names]
    target = np.array([path.split("/")[0] for path in paths])
    objects = Bunch(images=list(drawn.images[: len(paths)]), target=target, paths=paths)
    lit = [f"{p}/{p}_P00{angle}.pgm" for p in maps.PEOPLE for angle in maps.LIGHTS.values()]
    monkeypatch.setattr(maps.datasets, "load_caltech101", lambda folder: objects)
    monkeypatch.setattr(
        maps.datasets,
        "load_yale_b",
        lambda folder, size: Bunch(images=list(drawn.images[: len(lit)]), paths=lit),
    )
    monkeypatch.setattr(maps, "N_TRAIN", 4)
    monkeypatch.setattr(maps, "NEURONS_EACH", 2)
    monkeypatch.setattr(maps, "MidFea", partial(MidFea, n_words=50))
    monkeypatch.setattr(maps, "PEOPLE", maps.PEOPLE[:1])
    monkeypatch.setattr(maps, "IMAGES", maps.IMAGES[:1])
    monkeypatch.setitem(LOOKS, "savefig.dpi", 80)


def test_every_figure_that_shows_images_is_drawn(no_data, tmp_path):
    names = ["flowchart", "filters", "lights", "descriptor_maps"]
    written = figures.make_figures(tmp_path, tmp_path / "new", only=names)
    assert sorted(written) == sorted((tmp_path / "new").iterdir())
    assert len(written) == 2 * (1 + 1 + 1 + 2)
    check_pictures(written)


def test_the_same_seed_gives_the_same_files(no_data, tmp_path):
    first = figures.make_figures(tmp_path, tmp_path / "a", seed=1, only=["filters"])
    second = figures.make_figures(tmp_path, tmp_path / "b", seed=1, only=["filters"])
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in second]


def test_unknown_figures_and_missing_libraries_are_named(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="no figure 'lamps': choose from flowchart, filters"):
        figures.make_figures(tmp_path, tmp_path, only=["lamps"])
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(ValueError, match=r"^SIFT needs OpenCV: "):
        figures.make_figures(tmp_path, tmp_path)


def test_the_list_of_figures_names_functions_that_make_them():
    for name, module in figures.FIGURES.items():
        assert callable(getattr(import_module(f"midfea.reproduce.figures.{module}"), name))


def test_normalised_maps_do_not_change_with_the_strength_of_the_light(surfaces):
    image = surfaces[0][0].astype(np.float32)
    kernels = stages.learn_filters(surfaces[0], random_state=0)
    full, half = (maps.soft_convolution_stages(image * part, kernels) for part in (1.0, 0.5))
    for stage in ("normalized", "thresholded", "soft_convolution", "max_pool_3d"):
        np.testing.assert_allclose(half[stage], full[stage], atol=1e-5)
        assert maps.resemblance([full[stage], half[stage], full[stage]]) == pytest.approx(1)
    assert not np.allclose(half["convolution"], full["convolution"], rtol=0.1)


def test_concentration_of_even_and_uneven_maps():
    assert maps.concentration(np.ones((8, 8))) == pytest.approx(0.25)
    corner = np.zeros((8, 8))
    corner[:4, :4] = 1
    assert maps.concentration(corner) == pytest.approx(1)


def test_a_dense_sift_descriptor_sees_its_patch_only():
    image = np.random.RandomState(0).randint(256, size=(60, 60)).astype(np.uint8)
    changed = image.copy()
    changed[:, 45:] = 255 - changed[:, 45:]
    before, after = sift_maps(image, step=1), sift_maps(changed, step=1)
    assert before.shape == (60, 60, 128)
    np.testing.assert_allclose(np.linalg.norm(before, axis=2), 1, atol=1e-5)
    np.testing.assert_array_equal(before[:, :25], after[:, :25])  # 16 pixels and the blur before them
    assert not np.allclose(before[:, 40:], after[:, 40:])


def test_transposed_convolution_is_the_transpose():
    """<convolve(x), m> = <x, transposed(m)> for images that are zero near the border."""
    rng = np.random.RandomState(0)
    kernels = rng.normal(size=(3, 7, 7)).astype(np.float32)
    image = np.zeros((20, 17), dtype=np.float32)
    image[6:-6, 6:-6] = rng.normal(size=(8, 5))
    maps = rng.normal(size=(20, 17, 3)).astype(np.float32)
    left = float((stages.convolve(image, kernels, "same") * maps).sum())
    right = float((image * neurons._transposed_convolution(maps, kernels)).sum())
    assert left == pytest.approx(right, rel=1e-4)


def test_neurons_are_drawn_with_and_without_curves(surfaces, tmp_path):
    images, labels = surfaces
    learned = neurons.Neurons(images, labels, 3, seed=0)
    responses = learned.responses(images)
    assert responses.shape == (len(images), 3)
    assert learned.weights(0).shape == (32, 32, 36)
    assert (learned.weights(0) >= 0).all()
    serves = learned.layer.class_responses_.argmax(axis=1)
    titles = [str(learned.layer.classes_[c]) for c in serves]
    plain = neurons.draw(learned, images, [0, 1, 2], titles, "a note")
    with_curves = neurons.draw(
        learned, images, [0, 1, 2], titles, "", curves=(np.arange(4), responses[:4])
    )
    check_pictures(save(plain, tmp_path, "plain") + save(with_curves, tmp_path, "curves"))


def test_curves_are_drawn(tmp_path):
    rows = [{"method": "MidFea", "unlabelled": None, "accuracy": 97.0}] + [
        {"method": method, "unlabelled": n, "accuracy": 60 + n / 100}
        for method in ("ST (200)", "ST-NS (200)")
        for n in (0, 500, 2000)
    ]
    check_pictures(save(curves.draw_self_taught(rows), tmp_path, "self_taught"))
    rows = [
        {"task": task, "parameter": None, "value": None, "accuracy": 95.0}
        for task in ("ar-face", "ar-gender")
    ]
    rows += [
        {"task": "ar-face", "parameter": name, "value": f, "times default": f, "accuracy": 94 + f / 10}
        for name in curves.LETTERS
        for f in (0, 0.1, 1, 10)
    ]
    rows += [
        {"task": "ar-gender", "parameter": "n_neurons", "value": n, "accuracy": 95.0} for n in (2, 4, 10)
    ]
    check_pictures(save(curves.draw_parameters(rows), tmp_path, "parameters"))


def test_a_failed_drawing_leaves_no_file(tmp_path, monkeypatch):
    figure = new_figure(3, 3)
    monkeypatch.setattr(figure, "savefig", lambda *a, **k: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save(figure, tmp_path, "half")
    assert list(tmp_path.iterdir()) == []


def test_small_faces_have_no_mean_and_unit_length():
    images = np.random.RandomState(0).randint(256, size=(5, 60, 40)).astype(np.uint8)
    faces = curves.small_faces(images)
    np.testing.assert_allclose(faces.mean(axis=1), 0, atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(faces, axis=1), 1)


def test_too_few_unlabelled_faces_are_refused(tmp_path):
    (tmp_path / "unlabelled_faces").mkdir()
    with pytest.raises(ValueError, match="5 unlabelled faces"):
        curves.unlabelled_faces(tmp_path, 5, seed=0)


def few_people(protocol):
    """A protocol of AR with 20 of its people and as many neurons."""

    def load(folder):
        data = protocol.load(folder)
        kept = np.flatnonzero([int(person[2:]) % 25 < 5 for person in data.person])
        arrays = {name: data[name][kept] for name in ("target", "person", "groups", "session")}
        return Bunch(images=[data.images[i] for i in kept], **arrays)

    methods = tuple(replace(m, neurons=m.neurons and 20) for m in protocol.methods)
    return replace(protocol, load=load, methods=methods)


@pytest.mark.data
def test_numbers_of_the_curves(data_dir, monkeypatch):
    """On few people and raw pixels in place of the features: quick, and the accuracies mean little."""

    def quick_features(images, *settings):
        return raw_pixels(images, (20, 14))

    monkeypatch.setattr("midfea.reproduce.features.span_features", quick_features)
    for name in ("ar-face", "ar-gender"):
        monkeypatch.setitem(PROTOCOLS, name, few_people(PROTOCOLS[name]))
    rows = curves.measure_self_taught(data_dir, 0, counts=(0, 300), sizes=(40,))
    methods = [(row["method"], row["unlabelled"]) for row in rows]
    assert methods[:3] == [("raw pixels", None), ("MidFea", None), ("MidFea-NS", None)]
    assert methods[3:] == [(f"{m} (40)", n) for n in (0, 300) for m in ("ST", "ST-NS")]
    assert all(5 < row["accuracy"] <= 100 for row in rows)
    rows = curves.measure_parameters(data_dir, 0, factors=(1.0,), neurons=(2,))
    assert [row["parameter"] for row in rows] == [None, None, *curves.LETTERS, "n_neurons"]
    assert len({row["accuracy"] for row in rows[2:6]}) == 1  # the defaults, four times
    assert json.loads(json.dumps(rows)) == rows


@pytest.mark.data
def test_neurons_for_gender_are_drawn(data_dir, tmp_path):
    check_pictures(neurons.gender(data_dir, tmp_path, 0))
