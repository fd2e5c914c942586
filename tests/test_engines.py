"""Every engine gives what the plain stages give, on the same images."""

import dataclasses
import tracemalloc

import numpy as np
import pytest

from midfea import MidFea, stages
from midfea.engines import Chain, get_engine
from midfea.pictures.images import Images, Pictures
from ties import exact_descriptors, exactly_nearest, tied_words

CHAINS = {
    "paper": {},
    "fast": {"pairs": False, "window": 4, "encoding": "llc", "floor": 0.5},
    "soft": {"encoding": "soft", "scales": (1.0, 0.71, 0.5), "partition": (3, 3)},
    "same": {"padding": "same", "rectify": False, "pooling": "sum"},
    "overlapping": {"encoding": "llc", "partition": {"size": 8, "step": 4}, "scales": (1.0, 0.5)},
    "overlapping pyramid": {"encoding": "llc", "partition": "overlapping pyramid", "scales": (1.0, 0.5)},
    "one pixel windows": {"window": 1, "n_neighbors": 1, "encoding": "soft"},
}


PLAIN = {
    "codebook": None,
    "rectify": True,
    "floor": 0.0,
    "padding": "valid",
    "pairs": True,
    "window": 2,
    "scales": (1.0,),
    "encoding": "vq",
    "n_neighbors": 5,
    "sharpness": 10.0,
    "partition": "pyramid",
    "pooling": "max",
}


def make_chain(images, **options):
    filters = stages.learn_filters(images, 9, 7, n_patches=5000, random_state=0)
    chain = Chain(filters=filters, **PLAIN | options)
    reference = get_engine("reference").prepare(chain)
    descriptors = np.concatenate(
        [reference.descriptors(i).reshape(-1, chain.n_components) for i in images]
    )
    codebook = stages.kmeans(descriptors, 60, max_iter=5, random_state=0)
    return dataclasses.replace(chain, codebook=codebook)


def assert_same_words(mine, theirs, descriptors, codebook):
    """Equal, but for words whose squared distances differ by less than 1e-5."""
    differ = np.flatnonzero(mine.ravel() != theirs.ravel())
    flat = descriptors.reshape(-1, codebook.shape[1]).astype(float)
    for i in differ:
        a, b = (((flat[i] - codebook[words.ravel()[i]]) ** 2).sum() for words in (mine, theirs))
        assert abs(a - b) < 1e-5
    assert len(differ) <= 0.001 * mine.size


def compare(images, chain):
    reference, cpu = (get_engine(name).prepare(chain) for name in ("reference", "cpu"))
    for image in images:
        plain = reference.descriptors(image)
        np.testing.assert_allclose(cpu.descriptors(image), plain, atol=1e-5)
        words = cpu.index.nearest(plain.reshape(-1, plain.shape[-1]))
        assert_same_words(words, stages.quantize(plain, chain.codebook), plain, chain.codebook)


@pytest.mark.parametrize("name", CHAINS)
def test_cpu_equals_reference(mixed_images, name):
    chain = make_chain(mixed_images, **CHAINS[name])
    compare(mixed_images, chain)
    reference, cpu = (get_engine(name).prepare(chain) for name in ("reference", "cpu"))
    for image in mixed_images:
        mine, plain = cpu.pooled(image), reference.pooled(image)
        # A tie decided the other way changes single entries; nothing else may differ.
        assert (np.abs(mine - plain) > 1e-3).mean() < 0.002
        assert mine.dtype == plain.dtype == np.float32


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint16])
def test_other_pixel_types(mixed_images, dtype):
    images = [(image / 255).astype(dtype) if dtype != np.uint16 else image.astype(dtype) * 257
              for image in mixed_images]  # fmt: skip
    chain = make_chain(images)
    reference, cpu = (get_engine(name).prepare(chain) for name in ("reference", "cpu"))
    for image in images:
        plain, mine = reference.descriptors(image), cpu.descriptors(image)
        # Not exact as for 8-bit pixels: faint texture may be rounded differently here and there.
        assert np.quantile(np.abs(mine - plain), 0.999) < 1e-3


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"rectify": False, "window": 1},
        {"pairs": False, "window": 4, "encoding": "llc", "padding": "same", "floor": 0.5},
        {"encoding": "soft", "n_neighbors": 2, "window": 3},
    ],
)
def test_near_ties_are_decided_as_exact_arithmetic_does(mixed_images, options):
    undecided = 0
    filters = stages.learn_filters(mixed_images, 7, 5, n_patches=5000, random_state=0)
    for image in mixed_images:
        chain = Chain(filters=filters, **PLAIN | options)
        points = exact_descriptors(image, chain)
        chain = dataclasses.replace(chain, codebook=tied_words(points, chain.n_nearest))
        exact = np.sort(exactly_nearest(points, chain.words, chain.n_nearest), axis=1)
        cpu = get_engine("cpu").prepare(chain)
        flat = cpu.descriptors(image).reshape(len(points), -1)
        in_float32 = cpu.index.nearest(flat, chain.n_nearest)
        undecided += (np.sort(in_float32, axis=1) != exact).any(axis=1).sum()
        [(_, codes)] = cpu.codes_by_scale(image)
        np.testing.assert_array_equal(np.sort(codes.words.reshape(exact.shape), axis=1), exact)
    assert undecided > 10  # there is something to get wrong


@pytest.mark.data
def test_cpu_equals_reference_on_real_images(data_dir):
    """Maps and descriptors to 1e-5, words equal except ties within 1e-5."""
    folder = data_dir / "caltech101" / "101_ObjectCategories"
    paths = [str(next(c.glob("*0001.jpg"))) for c in sorted(folder.iterdir())][::4]
    model = MidFea(n_words=500, projection=None, random_state=0, n_samples=20_000).fit(paths)
    chain = model.extractor_.chain
    images = [picture.grey for picture in Pictures(Images(paths), 150)]
    cpu = get_engine("cpu").prepare(dataclasses.replace(chain, padding="valid"))
    for image in images:
        maps = stages.max_pool_3d(stages.soft_convolution(image, chain.filters), pairs=False)
        fused = cpu.pooled_maps(image)
        np.testing.assert_allclose(fused.transpose(1, 2, 0), maps, atol=1e-5)
    compare(images, chain)


def test_unknown_engine():
    with pytest.raises(ValueError, match="engine is one of"):
        get_engine("quantum")


def test_memory_is_not_descriptors_times_words():
    """Blocks: 10,000 descriptors x 5,000 words would be 200 MB of scores."""
    rng = np.random.RandomState(0)
    codebook = rng.rand(5000, 16).astype(np.float32)
    descriptors = rng.rand(10_000, 16).astype(np.float32)
    search = get_engine("cpu").search(codebook)
    search(descriptors[:10])
    tracemalloc.start()
    search(descriptors)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20e6
