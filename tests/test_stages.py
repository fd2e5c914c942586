"""The stages do what the paper says, on inputs small enough to check by hand."""

import itertools

import numpy as np
import pytest
from scipy.signal import correlate2d

from midfea import stages
from midfea.stages.filters import GRID


def random_image(shape=(20, 17), seed=0):
    return np.random.RandomState(seed).randint(0, 256, shape).astype(np.uint8)


def random_filters(n=5, size=3, seed=0):
    filters = np.random.RandomState(seed).randn(n, size, size)
    filters -= filters.mean(axis=(1, 2), keepdims=True)
    return (filters / np.linalg.norm(filters, axis=(1, 2), keepdims=True)).astype(np.float32)


def soft_convolution_by_hand(image, filters, rectify):
    """The steps of the paper's footnote 1, position by position."""
    maps = np.stack([correlate2d(image.astype(float), f, mode="valid") for f in filters], axis=-1)
    result = np.zeros_like(maps)
    for y, x in np.ndindex(maps.shape[:2]):
        r = np.abs(maps[y, x]) if rectify else maps[y, x]
        r = r / np.linalg.norm(r)
        r = np.clip(r - r.mean(), 0, None)
        result[y, x] = r / np.linalg.norm(r)
    return result


class TestSoftConvolution:
    @pytest.mark.parametrize("rectify", [True, False])
    def test_follows_the_paper(self, rectify):
        image, filters = random_image(), random_filters()
        maps = stages.soft_convolution(image, filters, rectify=rectify)
        expected = soft_convolution_by_hand(image, filters, rectify)
        np.testing.assert_allclose(maps, expected, atol=2e-6)

    @pytest.mark.parametrize("n, size", [(2, 2), (9, 7), (24, 5), (3, 11)])
    def test_any_number_and_size_of_filters(self, n, size):
        image, filters = random_image((30, 26)), random_filters(n, size)
        assert stages.soft_convolution(image, filters).shape == (31 - size, 27 - size, n)
        assert stages.soft_convolution(image, filters, padding="same").shape == (30, 26, n)

    def test_same_padding_agrees_with_valid_inside(self):
        image, filters = random_image(), random_filters(4, 5)
        same = stages.soft_convolution(image, filters, padding="same")
        np.testing.assert_array_equal(same[2:-2, 2:-2], stages.soft_convolution(image, filters))

    def test_constant_patches_are_zero_not_nan(self):
        image = random_image((40, 40))
        image[:20] = 77
        maps = stages.soft_convolution(image, random_filters(9, 7))
        assert np.isfinite(maps).all()
        assert not maps[:14].any()
        assert maps[20:].any(axis=-1).all()

    def test_light_does_not_matter(self):
        image, filters = random_image((40, 40)).astype(float), random_filters(9, 7)
        maps = stages.soft_convolution(image, filters)
        np.testing.assert_allclose(maps, stages.soft_convolution(0.3 * image + 20, filters), atol=1e-3)
        np.testing.assert_allclose(maps, stages.soft_convolution(4 * image, filters), atol=1e-6)

    def test_floor_silences_the_weak_places_only(self):
        image = random_image((40, 40))
        image[:20] //= 50
        filters = random_filters(9, 7)
        plain = stages.soft_convolution(image, filters)
        floored = stages.soft_convolution(image, filters, floor=0.5)
        assert plain[:14].any(axis=-1).all()
        assert not floored[:14].any()
        np.testing.assert_array_equal(floored[20:], plain[20:])

    def test_wrong_input_is_named(self):
        with pytest.raises(ValueError, match="smaller than the filters"):
            stages.soft_convolution(np.ones((3, 3)), random_filters(2, 7))
        with pytest.raises(ValueError, match="padding"):
            stages.soft_convolution(np.ones((9, 9)), random_filters(2, 3), padding="full")
        with pytest.raises(ValueError, match="grey image"):
            stages.soft_convolution(np.ones((9, 9, 3)), random_filters(2, 3))


class TestMaxPool3D:
    @pytest.mark.parametrize("shape", [(8, 6), (7, 6), (7, 5), (1, 1)])
    def test_maximum_of_every_cuboid(self, shape):
        maps = np.random.RandomState(0).rand(*shape, 9)
        pooled = stages.max_pool_3d(maps)
        assert pooled.shape == (-(-shape[0] // 2), -(-shape[1] // 2), 36)
        for m, (a, b) in enumerate(itertools.combinations(range(9), 2)):
            for y, x in np.ndindex(pooled.shape[:2]):
                cuboid = maps[2 * y : 2 * y + 2, 2 * x : 2 * x + 2, [a, b]]
                assert pooled[y, x, m] == cuboid.max()

    def test_without_pairs(self):
        maps = np.random.RandomState(0).rand(4, 4, 3)
        pooled = stages.max_pool_3d(maps, pairs=False)
        np.testing.assert_array_equal(pooled, maps.reshape(2, 2, 2, 2, 3).max(axis=(1, 3)))

    def test_one_map_has_no_pair(self):
        with pytest.raises(ValueError, match="two"):
            stages.max_pool_3d(np.ones((4, 4, 1)))


@pytest.mark.parametrize("window", [1, 2, 4])
def test_assemble_descriptors(window):
    maps = np.random.RandomState(0).rand(7, 6, 5)
    descriptors = stages.assemble_descriptors(maps, window)
    assert descriptors.shape == (8 - window, 7 - window, window * window * 5)
    np.testing.assert_allclose(np.linalg.norm(descriptors, axis=-1), 1)
    patch = maps[2 : 2 + window, 1 : 1 + window].ravel()
    np.testing.assert_allclose(descriptors[2, 1], patch / np.linalg.norm(patch))


def test_assemble_keeps_flat_places_zero():
    assert not stages.assemble_descriptors(np.zeros((5, 5, 3))).any()


class TestFilters:
    @pytest.mark.parametrize("method", ["whitened", "raw"])
    def test_unit_length_seeded_and_on_the_grid(self, surfaces, method):
        images = list(surfaces[0])
        filters = stages.learn_filters(images, 9, 7, method, n_patches=5000, random_state=0)
        again = stages.learn_filters(images, 9, 7, method, n_patches=5000, random_state=0)
        other = stages.learn_filters(images, 9, 7, method, n_patches=5000, random_state=1)
        np.testing.assert_array_equal(filters, again)
        assert not np.array_equal(filters, other)
        np.testing.assert_allclose(np.linalg.norm(filters, axis=(1, 2)), 1, atol=1e-6)
        np.testing.assert_array_equal(filters * GRID, np.rint(filters * GRID))
        if method == "whitened":
            np.testing.assert_array_equal(filters.sum(axis=(1, 2)), 0)

    def test_responses_of_8_bit_images_are_exact(self, surfaces):
        """The reason for the grid: float32 gives what arithmetic without rounding gives."""
        filters = stages.learn_filters(list(surfaces[0]), random_state=0, n_patches=5000)
        image = surfaces[0][0]
        exact = np.stack([correlate2d(image.astype(float), f, "valid") for f in filters], axis=-1)
        np.testing.assert_array_equal(stages.convolve(image, filters), exact)

    def test_no_filter_is_anothers_negative(self, surfaces):
        filters = stages.learn_filters(list(surfaces[0]), random_state=0, n_patches=20_000)
        cosines = np.abs(filters.reshape(9, -1) @ filters.reshape(9, -1).T) - np.eye(9)
        assert cosines.max() < 0.95

    def test_constant_images_are_refused(self):
        with pytest.raises(ValueError, match="constant"):
            stages.learn_filters([np.full((30, 30), 5, dtype=np.uint8)])
        with pytest.raises(ValueError, match="as large as the filters"):
            stages.learn_filters([np.ones((3, 3))])
        with pytest.raises(ValueError, match="method"):
            stages.learn_filters([random_image()], method="sobel")


class TestKMeans:
    def test_finds_separate_clusters(self):
        rng = np.random.RandomState(0)
        centres = 10 * rng.randn(6, 4)
        points = np.repeat(centres, 50, axis=0) + 0.01 * rng.randn(300, 4)
        best = min(
            (stages.kmeans(points, 6, random_state=seed) for seed in range(20)),
            key=lambda c: ((points[:, None] - c) ** 2).sum(-1).min(1).sum(),
        )
        distances = np.linalg.norm(centres[:, None] - best, axis=-1).min(axis=1)
        assert distances.max() < 0.05

    def test_fixed_point_is_the_mean_of_its_points(self):
        points = np.random.RandomState(0).randn(500, 3).astype(np.float32)
        centres = stages.kmeans(points, 7, max_iter=500, tol=0, random_state=0)
        labels = ((points[:, None] - centres) ** 2).sum(-1).argmin(1)
        for k in range(7):
            np.testing.assert_allclose(centres[k], points[labels == k].mean(0), atol=1e-4)

    def test_spherical_centres_ignore_the_sign(self):
        rng = np.random.RandomState(0)
        axes = np.eye(3)[rng.randint(3, size=300)] * rng.choice([-1, 1], 300)[:, None]
        points = axes + 0.01 * rng.randn(300, 3)
        found = [stages.kmeans(points, 3, spherical=True, random_state=s) for s in range(10)]
        best = max(found, key=lambda c: np.abs(points @ c.T).max(1).mean())
        np.testing.assert_allclose(np.sort(np.abs(best).max(axis=1)), 1, atol=1e-2)
        assert set(np.abs(best).argmax(axis=1)) == {0, 1, 2}

    def test_as_many_clusters_as_points_and_duplicates(self):
        points = np.array([[0.0], [0.0], [0.0], [1.0]])
        assert np.isfinite(stages.kmeans(points, 4, random_state=0)).all()
        with pytest.raises(ValueError, match="at least as many points"):
            stages.kmeans(points, 5)


class TestCodes:
    rng = np.random.RandomState(0)
    codebook = rng.randn(40, 8).astype(np.float32)
    descriptors = rng.randn(6, 7, 8).astype(np.float32)

    def test_quantize_finds_the_nearest(self):
        distances = np.linalg.norm(self.descriptors[..., None, :] - self.codebook, axis=-1)
        words = stages.quantize(self.descriptors, self.codebook)
        np.testing.assert_array_equal(words, distances.argmin(axis=-1))
        nearest = stages.nearest_words(self.descriptors, self.codebook, 5)
        np.testing.assert_array_equal(nearest, distances.argsort(axis=-1)[..., :5])

    def test_ties_go_to_the_first_word(self):
        codebook = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        assert stages.quantize(np.array([[0.9, 0.0]]), codebook).tolist() == [0]

    def test_soft_codes(self):
        words, weights = stages.soft_codes(self.descriptors, self.codebook, 5, sharpness=0.7)
        x, c = self.descriptors[2, 3], self.codebook[words[2, 3]]
        expected = np.exp(-0.7 * ((x - c) ** 2).sum(axis=1))
        np.testing.assert_allclose(weights[2, 3], expected / expected.sum(), rtol=1e-5)

    def test_llc_codes_minimise_their_objective(self):
        words, weights = stages.llc_codes(self.descriptors, self.codebook, 5)
        np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)
        x, c = self.descriptors[1, 1].astype(float), self.codebook[words[1, 1]].astype(float)
        penalty = 1e-4 * ((c - x) ** 2).sum()

        def objective(w):
            return ((x - w @ c) ** 2).sum() + penalty * (w**2).sum()

        w = weights[1, 1].astype(float)
        for _ in range(50):
            move = 1e-3 * self.rng.randn(5)
            assert objective(w) <= objective(w + move - move.mean()) + 1e-9

    def test_llc_reproduces_a_word(self):
        words, weights = stages.llc_codes(self.codebook[:3], self.codebook, 5)
        np.testing.assert_array_equal(words[:, 0], [0, 1, 2])
        np.testing.assert_allclose(weights[:, 0], 1, atol=1e-2)

    def test_shapes_must_fit(self):
        with pytest.raises(ValueError, match="components"):
            stages.quantize(np.ones((3, 4)), self.codebook)
        with pytest.raises(ValueError, match="n_neighbors"):
            stages.nearest_words(self.descriptors, self.codebook, 41)


class TestPooling:
    words = np.random.RandomState(0).randint(0, 6, (9, 11))

    def test_pyramid_is_the_words_present_in_each_cell(self):
        pooled = stages.pool_cells(self.words, 6).reshape(21, 6)
        np.testing.assert_array_equal(pooled[0], np.isin(np.arange(6), self.words))
        np.testing.assert_array_equal(pooled[1], np.isin(np.arange(6), self.words[:4, :5]))
        np.testing.assert_array_equal(pooled[4], np.isin(np.arange(6), self.words[4:, 5:]))
        np.testing.assert_array_equal(pooled[20], np.isin(np.arange(6), self.words[6:, 8:]))

    def test_levels_of_a_grid_are_a_partition(self):
        counts = stages.pool_cells(self.words, 6, (3, 4), pooling="sum").reshape(12, 6).sum(axis=0)
        np.testing.assert_array_equal(counts, np.bincount(self.words.ravel(), minlength=6))

    def test_overlapping_cells(self):
        pooled = stages.pool_cells(self.words, 6, {"size": 8, "step": 4}, pooling="sum")
        pooled = pooled.reshape(3, 4, 6)  # 4x4 descriptors every 2: rows 0, 2, 4; columns 0 to 6
        np.testing.assert_array_equal(
            pooled[1, 2], np.bincount(self.words[2:6, 4:8].ravel(), minlength=6)
        )
        np.testing.assert_array_equal(  # the last ones reach to the border
            pooled[2, 3], np.bincount(self.words[4:, 6:].ravel(), minlength=6)
        )

    def test_cells_of_an_overlapping_pyramid_reach_beyond_their_borders(self):
        words = np.arange(400).reshape(20, 20)
        pooled = stages.pool_cells(words, 400, "overlapping pyramid").reshape(21, 20, 20)
        assert pooled[0].all()
        for cell, rows, columns in (  # of 10 and of 5 descriptors, 3 and 1.5 of them beyond
            (1, (0, 13), (0, 13)),
            (4, (7, 20), (7, 20)),
            (5, (0, 6), (0, 6)),
            (5 + 4 * 1 + 2, (3, 11), (8, 16)),
        ):
            inside = np.zeros((20, 20))
            inside[slice(*rows), slice(*columns)] = 1
            np.testing.assert_array_equal(pooled[cell], inside)

    def test_weights_and_absent_words(self):
        words, weights = np.array([[[0, 1], [1, 2]]]), np.float32([[[0.3, 0.7], [0.9, -0.5]]])
        pooled = stages.pool_cells(words, 4, (1, 1), weights=weights)
        np.testing.assert_allclose(pooled, [0.3, 0.9, 0, 0])
        pooled = stages.pool_cells(words, 4, (1, 1), weights=weights, pooling="sum")
        np.testing.assert_allclose(pooled, [0.3, 1.6, -0.5, 0])

    def test_fewer_rows_than_cells_leaves_cells_empty(self):
        assert stages.pool_cells(self.words[:3, :3], 6).shape == (126,)

    def test_a_smaller_copy_keeps_the_cells(self):
        small = stages.partition_levels({"size": 8, "step": 4}, (5, 6), (9, 11))
        full = stages.partition_levels({"size": 8, "step": 4}, (9, 11))
        assert [len(bounds) for bounds in small[0]] == [len(bounds) for bounds in full[0]]
        assert small[0][0].max() == 5

    @pytest.mark.parametrize(
        "partition", ["quadtree", (0, 2), (1, 2, 3), {"size": 8}, {"size": 0, "step": 1}, 3]
    )
    def test_unknown_partitions(self, partition):
        with pytest.raises(ValueError, match=r"partition|cells"):
            stages.pool_cells(self.words, 6, partition)


class TestProjection:
    @pytest.mark.parametrize("kind", ["sparse", "gaussian", "uniform"])
    def test_keeps_angles_on_average(self, kind):
        rng = np.random.RandomState(0)
        features = rng.rand(20, 3000) * (rng.rand(20, 3000) < 0.2)
        projected = stages.random_projection(features, 1500, kind, random_state=0)
        unit = features / np.linalg.norm(features, axis=1, keepdims=True)
        assert projected.shape == (20, 1500)
        np.testing.assert_allclose(np.linalg.norm(projected, axis=1), 1, atol=1e-5)
        assert np.abs(projected @ projected.T - unit @ unit.T).max() < 0.15

    def test_every_feature_counts(self):
        matrix = stages.projection_matrix(5000, 20, random_state=0)
        assert (np.diff(matrix.indptr) > 0).all()
        np.testing.assert_array_equal(
            matrix.toarray(), stages.projection_matrix(5000, 20, random_state=0).toarray()
        )

    def test_unknown_kind(self):
        with pytest.raises(ValueError, match="kind"):
            stages.projection_matrix(10, 5, "fourier")
