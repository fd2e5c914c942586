"""Dense SIFT: equal to its plain definition, pixel by pixel."""

import numpy as np
import pytest
from scipy.ndimage import correlate

from midfea.baselines.dense_sift import dense_sift, grid


def plain_dense_sift(image, step, patch_size, threshold):
    """The definition, with sums over whole patches and filters as matrices."""
    around = np.arange(-2, 3)
    gauss = np.exp(-(around[:, None] ** 2 + around**2) / 2)
    along_y, along_x = np.gradient(gauss)
    gx, gy = (
        -correlate(image / 255, f * 2 / np.abs(f).sum(), mode="nearest") for f in (along_x, along_y)
    )
    magnitude, angle = np.hypot(gx, gy), np.arctan2(gy, gx)
    votes = [magnitude * np.maximum(np.cos(angle - a * np.pi / 4), 0) ** 9 for a in range(8)]
    votes = np.stack(votes, axis=-1)

    centres = (np.arange(4) + 0.5) * patch_size / 4
    pixels = np.arange(patch_size) + 0.5
    near = np.maximum(1 - np.abs(pixels - centres[:, None]) * 4 / patch_size, 0)
    descriptors, places = [], []
    offsets = [(length - patch_size) % step // 2 for length in image.shape]
    for top in range(offsets[0], image.shape[0] - patch_size + 1, step):
        for left in range(offsets[1], image.shape[1] - patch_size + 1, step):
            patch = votes[top : top + patch_size, left : left + patch_size]
            values = np.einsum("ri,cj,ija->rca", near, near, patch).ravel()
            length = np.linalg.norm(values)
            if length >= threshold:
                values = np.minimum(values / length, 0.2)
                values /= np.linalg.norm(values)
            else:
                values = np.minimum(values / threshold, 0.2)
            descriptors.append(values)
            places.append((top + patch_size / 2, left + patch_size / 2))
    return np.array(descriptors), np.array(places)


@pytest.mark.parametrize("shape", [(40, 53), (16, 33), (47, 30)])
@pytest.mark.parametrize(("step", "patch_size", "threshold"), [(6, 16, 1.0), (5, 13, 20.0)])
def test_equals_the_plain_definition(shape, step, patch_size, threshold):
    rng = np.random.RandomState(0)
    image = np.cumsum(rng.randint(-9, 10, shape), axis=1) % 256
    image[:, 20:] = image[:, 20:] // 20 + 100  # little contrast on one side
    descriptors, places = dense_sift(image.astype(np.uint8), step, patch_size, threshold)
    expected, centres = plain_dense_sift(image, step, patch_size, threshold)
    np.testing.assert_allclose(descriptors, expected, atol=1e-4)
    np.testing.assert_array_equal(places, centres)


def test_a_border_is_no_edge():
    for value in (0, 90, 255):
        descriptors, _ = dense_sift(np.full((30, 40), value, dtype=np.uint8))
        assert np.abs(descriptors).max() < 1e-6


def test_a_gradient_is_seen_in_its_direction():
    rising = np.tile(np.arange(32) * 8.0, (32, 1))
    for image, direction in ((rising, 0), (rising.T, 2), (rising[:, ::-1], 4), (rising[:, ::-1].T, 6)):
        values = dense_sift(image)[0].reshape(-1, 16, 8)
        assert (values[:, :, direction] > values.sum(axis=2) / 2).all()


def test_little_contrast_keeps_short_and_much_does_not_matter():
    image = np.random.RandomState(0).randint(0, 2, (32, 32)) * 120.0
    strong = dense_sift(image)[0]
    np.testing.assert_allclose(np.linalg.norm(strong, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(dense_sift(image + 100)[0], strong, atol=1e-4)
    np.testing.assert_allclose(dense_sift(2 * image)[0], strong, atol=1e-4)
    weak, weaker = (dense_sift(image / by)[0] for by in (1000, 2000))
    assert np.linalg.norm(weak, axis=1).max() < 1
    np.testing.assert_allclose(weaker, weak / 2, atol=1e-5)


def test_the_grid_is_centred():
    for length in range(16, 60):
        starts = grid(length, 6, 16)
        left, right = starts[0], length - 16 - starts[-1]
        assert right - left in (0, 1)
        assert (np.diff(starts) == 6).all()
        assert left + right < 6


def test_wrong_sizes_say_what_to_do():
    with pytest.raises(ValueError, match="10x30 pixels, one patch needs 16x16"):
        dense_sift(np.zeros((10, 30)))
    with pytest.raises(ValueError, match=r"a grey image .* got an array of shape \(30, 30, 3\)"):
        dense_sift(np.zeros((30, 30, 3)))
    with pytest.raises(ValueError, match="step=0 must be 1 or more"):
        dense_sift(np.zeros((30, 30)), step=0)
