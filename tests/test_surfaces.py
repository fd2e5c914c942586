"""The built-in set: what it promises about shapes, seeds, boxes and light."""

import numpy as np
import pytest
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from midfea.datasets.surfaces import _KINDS, _draw, load_surfaces


@pytest.fixture(scope="module")
def data():
    return load_surfaces(n_per_class=20)


def test_shapes_and_types(data):
    assert data.images.shape == (120, 96, 96)
    assert data.images.dtype == np.uint8
    assert data.boxes.shape == (120, 4)
    assert np.issubdtype(data.boxes.dtype, np.integer)
    assert len(set(data.target_names)) == 6
    assert np.bincount(data.target).tolist() == [20] * 6
    assert "synthetic" in data.DESCR.lower()


def test_order_is_shuffled(data):
    assert np.any(np.diff(data.target) < 0)


def test_same_seed_same_bytes(data):
    again = load_surfaces(n_per_class=20)
    for name in ("images", "target", "boxes"):
        np.testing.assert_array_equal(data[name], again[name])


@pytest.mark.parametrize("other", [1, None])
def test_other_seed_other_images(data, other):
    known = {image.tobytes() for image in data.images}
    fresh = load_surfaces(n_per_class=2, random_state=other).images
    assert not any(image.tobytes() in known for image in fresh)


def test_no_image_occurs_twice(data):
    assert len({image.tobytes() for image in data.images}) == len(data.images)


def test_more_images_keep_the_first_ones(data):
    few = load_surfaces(n_per_class=3)
    many = {
        (image.tobytes(), label, tuple(box))
        for image, label, box in zip(data.images, data.target, data.boxes, strict=True)
    }
    for image, label, box in zip(few.images, few.target, few.boxes, strict=True):
        assert (image.tobytes(), label, tuple(box)) in many


@pytest.mark.parametrize("size", [32, 48, 97, 120])
def test_other_sizes(size):
    data = load_surfaces(n_per_class=3, size=size)
    assert data.images.shape == (18, size, size)
    y0, x0, y1, x1 = data.boxes.T
    assert np.all((y0 >= 0) & (x0 >= 0) & (y0 < y1) & (x0 < x1) & (y1 <= size) & (x1 <= size))


@pytest.mark.parametrize("label", range(6))
def test_box_is_the_smallest_around_what_the_defect_changed(data, label):
    kind = list(_KINDS)[label]
    boxes = {image.tobytes(): box for image, box in zip(data.images, data.boxes, strict=True)}
    for index in range(5):
        image, clean = _draw(kind, 96, np.random.default_rng([0, label, index]))
        y0, x0, y1, x1 = boxes[image.tobytes()]
        changed = image != clean
        assert changed[y0:y1, x0:x1].sum() == changed.sum()
        inside = changed[y0:y1, x0:x1]
        assert inside[0].any() and inside[-1].any()
        assert inside[:, 0].any() and inside[:, -1].any()


def test_box_is_a_part_of_the_image(data):
    # an evidence map can be checked against a box only if the box leaves most of the image out
    y0, x0, y1, x1 = data.boxes.T
    share = (y1 - y0) * (x1 - x0) / 96**2
    assert share.min() > 0.05
    assert share.max() < 0.65
    assert np.mean((share > 0.15) & (share < 0.45)) > 0.8


def test_defects_are_visible():
    # even in the worst light some of the defect stands out of the sensor noise
    for label, kind in enumerate(_KINDS):
        for index in range(10):
            image, clean = _draw(kind, 96, np.random.default_rng([3, label, index]))
            assert np.abs(image.astype(int) - clean).max() >= 10


def test_light_varies_and_tells_nothing_about_the_kind(data):
    brightness = data.images.mean(axis=(1, 2))
    assert brightness.std() > 25
    means = [brightness[data.target == label].mean() for label in range(6)]
    assert np.std(means) < brightness.std() / 2


def test_raw_pixels_do_not_separate_the_kinds():
    data = load_surfaces()
    pixels = data.images.reshape(len(data.images), -1) / 255
    train_x, test_x, train_y, test_y = train_test_split(
        pixels, data.target, test_size=0.5, stratify=data.target, random_state=0
    )
    assert SVC(kernel="linear").fit(train_x, train_y).score(test_x, test_y) < 0.6


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"n_per_class": 0}, "n_per_class must be an integer of at least 1, got 0"),
        ({"n_per_class": 2.5}, "n_per_class must be an integer"),
        ({"size": 31}, "size must be an integer of at least 32, got 31"),
        ({"size": "96"}, "size must be an integer"),
        ({"random_state": -1}, "random_state must be an integer of at least 0"),
    ],
)
def test_bad_arguments_say_what_is_wrong(bad, message):
    with pytest.raises(ValueError, match=message):
        load_surfaces(**bad)
