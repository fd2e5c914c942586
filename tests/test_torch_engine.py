"""The torch engine gives what the plain stages and the cpu engine give, on the same images.

Where PyTorch is missing these tests are skipped; where a GPU is present they run there too.
"""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import midfea
from midfea import MidFea, stages
from midfea.datasets import load_surfaces
from midfea.engines import Chain, get_engine
from midfea.extras import install_line
from midfea.pictures import resize as pictures_resize
from midfea.pictures.resize import scaled_shape

from test_engines import CHAINS, PLAIN, assert_same_words, make_chain  # isort: skip

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from midfea.engines.torch import plain  # noqa: E402
from midfea.engines.torch.device import Device  # noqa: E402
from midfea.engines.torch.engine import TorchChain, TorchEngine  # noqa: E402
from midfea.engines.torch.plain import resize  # noqa: E402

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


@pytest.fixture(scope="module", params=DEVICES)
def engine(request):
    return TorchEngine(request.param)


def pooled(engine, images, chain):
    """Pooled codes of images of any sizes, as many at once as the device takes."""
    return engine.prepare(chain).features(images, len(images), projected=False)


def plainly_pooled(images, chain, engine="reference"):
    prepared = get_engine(engine).prepare(chain)
    return np.stack([prepared.pooled(image) for image in images])


def assert_same_codes(mine, theirs):
    """A tie decided the other way changes single entries; nothing else may differ."""
    assert mine.dtype == theirs.dtype == np.float32
    assert mine.shape == theirs.shape
    assert (np.abs(mine - theirs) > 1e-3).mean() < 0.002


@pytest.mark.parametrize("name", CHAINS)
def test_equals_reference(engine, mixed_images, name):
    chain = make_chain(mixed_images, **CHAINS[name])
    mine, reference = engine.prepare(chain), get_engine("reference").prepare(chain)
    for image in mixed_images:
        descriptors = reference.descriptors(image)
        np.testing.assert_allclose(mine.descriptors(image), descriptors, atol=1e-5)
        pairs = zip(mine.codes_by_scale(image), reference.codes_by_scale(image), strict=True)
        for (scaled, codes), (their_scaled, theirs) in pairs:
            np.testing.assert_allclose(scaled.image, their_scaled.image, atol=1e-4)
            same = (codes.words == theirs.words).all(axis=-1)
            assert same.mean() > 0.998
            np.testing.assert_allclose(codes.all_weights()[same], theirs.all_weights()[same], atol=1e-3)
        found = engine.search(chain.words)(descriptors.reshape(-1, descriptors.shape[-1]))
        assert_same_words(found, stages.quantize(descriptors, chain.words), descriptors, chain.words)
        assert_same_codes(mine.pooled(image), reference.pooled(image))
    if isinstance(chain.partition, dict):
        return  # images of other sizes have other numbers of cells
    # All at once, mixed sizes, some sizes twice: as one by one, and in the order given.
    images = [*mixed_images, mixed_images[2][::-1], mixed_images[0]]
    together = pooled(engine, images, chain)
    assert_same_codes(together[: len(mixed_images)], plainly_pooled(mixed_images, chain))
    np.testing.assert_array_equal(together[-1], together[0])


GOLDEN = {
    "paper": {"n_filters": 9, "n_words": 1000, "padding": "same"},
    "best": {"n_filters": 24, "n_words": 500, "padding": "same", "pairs": False, "window": 4,
             "floor": 0.5, "scales": (1.0, 0.71, 0.5), "encoding": "llc"},
}  # fmt: skip


@pytest.mark.parametrize("name", GOLDEN)
def test_real_sizes(engine, name):
    """Images of the size that photographs are reduced to, as many filters and words as presets have."""
    drawn = load_surfaces(n_per_class=1, size=150, random_state=5).images[:3]
    images = [drawn[0], drawn[1][:113], np.ascontiguousarray(drawn[2][:, :97])]
    options = dict(GOLDEN[name])
    filters = stages.learn_filters(images, options.pop("n_filters"), 7, n_patches=3000, random_state=0)
    n_words, chain = options.pop("n_words"), Chain(filters=filters, **PLAIN | options)
    reference = get_engine("reference").prepare(chain)
    found = np.concatenate([reference.descriptors(i).reshape(-1, chain.n_components) for i in images])
    found = np.unique(
        found, axis=0
    )  # equal words tie in the last bit, and each machine adds in its own order
    some = np.random.RandomState(0).choice(len(found), n_words, replace=False)
    chain = replace(chain, codebook=found[some] + np.float32(1e-3))
    theirs = plainly_pooled(images, chain)
    assert_same_codes(pooled(engine, images, chain), theirs)
    assert_same_codes(plainly_pooled(images, chain, "cpu"), theirs)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", [(13, 13), (14, 9), (9, 40), (31, 17)])
def test_random_images_and_tiny_cells(engine, seed, shape):
    """Few descriptors: cells of the 4x4 grid are one descriptor wide, or empty."""
    rng = np.random.RandomState(seed)
    images = [rng.randint(256, size=shape).astype(np.uint8) for _ in range(4)]
    images[1][:, : shape[1] // 2] = 7
    images[2][:] = 0
    filters = stages.learn_filters(images[:1], 5, 5, n_patches=500, random_state=0)
    codebook = rng.rand(17, 40).astype(np.float32)
    chain = Chain(filters=filters, **PLAIN | {"codebook": codebook, "padding": "same"})
    assert_same_codes(pooled(engine, images, chain), plainly_pooled(images, chain))


def test_other_pixels(engine, mixed_images):
    images = [(image / 255).astype(np.float32) for image in mixed_images]
    chain = make_chain(images)
    mine, reference = engine.prepare(chain), get_engine("reference").prepare(chain)
    for image in images:
        differences = np.abs(mine.descriptors(image) - reference.descriptors(image))
        assert np.quantile(differences, 0.999) < 1e-3


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("factor", [0.37, 0.5, 0.71, 1.3, 2.0])
def test_resizes_as_pictures_do(device, factor):
    rng = np.random.RandomState(0)
    for shape in ((150, 99), (31, 64), (7, 200), (200, 30)):
        after = scaled_shape(shape, factor)
        whole = rng.randint(256, size=shape).astype(np.uint8)
        for image in (whole, rng.rand(*shape).astype(np.float32)):
            for rounded in (False, True):
                mine = resize(torch.as_tensor(image, device=device)[None], after, rounded)
                theirs = pictures_resize.resize(image, after, rounded)
                assert mine[0].cpu().numpy().dtype == theirs.dtype
                np.testing.assert_allclose(mine[0].cpu().numpy(), theirs, rtol=1e-6, atol=1e-4)


def test_ties_go_to_the_first_word(engine):
    words = np.eye(4, dtype=np.float32)[[1, 0, 1, 0]]
    assert engine.search(words)(np.eye(4, dtype=np.float32)[:2]).tolist() == [1, 0]
    on_device = [torch.as_tensor(a, device=engine.device) for a in (np.eye(4)[:1], words)]
    assert plain.nearest(*(a.float() for a in on_device), 3).tolist() == [[1, 3, 0]]


def test_images_may_come_one_by_one(engine, mixed_images, monkeypatch):
    """While they are read, groups of one size go to the device, of many sizes when too many wait."""
    chain = make_chain(mixed_images)
    images = [image for i in range(4) for image in np.roll(np.array(mixed_images, dtype=object), i)]
    wanted, prepared = pooled(engine, images, chain), engine.prepare(chain)

    def one_by_one():
        return prepared.features(iter(images), len(images), projected=False)

    np.testing.assert_array_equal(one_by_one(), wanted)
    monkeypatch.setattr(Device, "idle", lambda self: True)
    for limits in (
        {"MIN_IMAGES_TO_START": 1},
        {"MIN_IMAGES_TO_START": 3, "MAX_WAITING_NUMBERS": 10**5},
        {"MAX_WAITING_PIXELS": 20_000},
        {"MAX_IMAGES_AT_ONCE": 2},
    ):
        for name, value in limits.items():
            monkeypatch.setattr(f"midfea.engines.torch.engine.{name}", value)
        np.testing.assert_array_equal(one_by_one(), wanted)


def with_memory_for(numbers, device):
    """A chain's tensors on a device that takes so many numbers at a time."""
    small = Device(device)
    small.numbers_in_flight = numbers
    return lambda chain: TorchChain(chain, None, small, True, None)


@pytest.mark.parametrize("name", ["paper", "fast", "soft"])
def test_strips_give_the_same(engine, mixed_images, name):
    """An image too large for the memory is taken a few rows at a time."""
    chain = make_chain(mixed_images, **CHAINS[name])
    small = with_memory_for(2**17, engine.device)(chain)
    strips = small.features(mixed_images, len(mixed_images), projected=False)
    assert_same_codes(strips, pooled(engine, mixed_images, chain))
    whole = engine.prepare(chain).descriptors(mixed_images[0])
    np.testing.assert_allclose(small.descriptors(mixed_images[0]), whole, atol=1e-6)


def test_out_of_memory_is_halved(mixed_images, monkeypatch):
    chain = make_chain(mixed_images, encoding="llc")
    engine, images = TorchEngine("cpu"), mixed_images[:1] * 4
    wanted = pooled(engine, images, chain)
    asked = []
    describe_rows = plain.describe_rows

    def small_device(pixels, filters, flat, chain, rows):
        asked.append(len(pixels) * (rows[1] - rows[0]))
        if asked[-1] > 20:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return describe_rows(pixels, filters, flat, chain, rows)

    monkeypatch.setattr(plain, "describe_rows", small_device)
    np.testing.assert_allclose(pooled(engine, images, chain), wanted, atol=1e-5)
    assert asked[0] > 20 and max(asked[-4:]) <= 20


@pytest.mark.skipif(not torch.cuda.is_available(), reason="this is about a CUDA device's memory")
def test_little_device_memory(mixed_images):
    chain = make_chain(mixed_images, encoding="soft")
    images = mixed_images[:1] * 300
    wanted = pooled(TorchEngine("cuda"), images, chain)
    torch.cuda.empty_cache()
    device = Device("cuda")
    before = device.numbers_in_flight
    small = TorchChain(chain, None, device, True, None)
    torch.cuda.set_per_process_memory_fraction(5e8 / torch.cuda.mem_get_info()[1])
    try:
        found = small.features(images, len(images), projected=False)
        np.testing.assert_allclose(found, wanted, atol=1e-5)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert device.numbers_in_flight < before


def test_too_little_memory_is_said(mixed_images, monkeypatch):
    chain = make_chain(mixed_images)

    def no_device(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(plain, "describe_rows", no_device)
    with pytest.raises(MemoryError, match=r"80x80 pixels.*max_side"):
        TorchEngine("cpu").prepare(chain).pooled(mixed_images[0])


FUSED = {
    "paper": {},
    "same": {"padding": "same"},
    "floor": {"padding": "same", "floor": 0.5},
    "single maps": {"pairs": False},
    "one pixel windows": {"window": 1, "rectify": False},
    "scales": {"scales": (1.0, 0.71, 0.5), "partition": (3, 2)},
}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="the kernels need a CUDA device")
@pytest.mark.parametrize("name", FUSED)
def test_kernels_equal_plain(mixed_images, name):
    """Words equal but for ties; "fast" takes words that are no more than its margin farther away."""
    rng = np.random.RandomState(0)
    noise = [rng.randint(256, size=shape).astype(np.uint8) for shape in ((31, 18), (14, 90), (150, 150))]
    images = [*mixed_images, *noise, (noise[0] / 255).astype(np.float32)]
    chain = make_chain(mixed_images, **FUSED[name])
    from midfea.engines.torch import fused

    assert fused.can_run(chain)
    theirs = with_memory_for(2**28, "cuda")(chain).features(images, len(images), projected=False)
    exact = TorchEngine("cuda").prepare(chain)
    mine = exact.features(images, len(images), projected=False)
    assert set(np.unique(mine)) == {0, 1}
    assert (mine != theirs).mean() < 2e-4
    assert (pooled(TorchEngine("cuda", "fast"), images, chain) != theirs).mean() < 0.01
    np.testing.assert_array_equal(np.stack([exact.pooled(image) for image in images]), mine)


@pytest.mark.parametrize("projection", ["random", "gaussian", "pca", None])
def test_estimator(mixed_images, projection):
    """The same fitted model on both engines; mixed sizes, in batches."""
    model = MidFea(n_words=50, n_components=30, n_samples=3000, projection=projection, random_state=0)
    model.fit(mixed_images)
    theirs = model.transform(mixed_images)
    mine = model.set_params(engine="torch", device="cpu").transform(mixed_images)
    np.testing.assert_allclose(mine, theirs, atol=2e-3)
    assert np.abs(mine - theirs).mean() < 1e-4


def test_learns_on_the_device(mixed_images):
    model = MidFea(n_words=50, n_components=20, n_samples=3000, projection="pca", random_state=0)
    theirs = model.fit_transform(mixed_images)
    model.set_params(engine="torch", device="cpu")
    np.testing.assert_allclose(np.abs(model.fit_transform(mixed_images)), np.abs(theirs), atol=5e-2)


def test_cells_of_a_fixed_size_need_one_size(mixed_images):
    model = MidFea(n_words=20, n_samples=2000, projection=None, partition={"size": 16, "step": 8},
                   engine="torch", device="cpu", random_state=0)  # fmt: skip
    model.fit(mixed_images[:1])
    with pytest.raises(midfea.pictures.images.ImageError, match="cells of a fixed size"):
        model.transform(mixed_images)


def one_scale(images, filters, words, chain):
    """Pooled codes of images at their own size, by the steps of `plain`, with gradients."""
    n, grid = len(images), chain.grid(tuple(images.shape[1:]))
    pixels, rows = plain.prepare(images, chain, filters.dtype), (0, grid[0])
    flat = plain.flat_of(pixels, filters, chain, 2 * grid[0])
    points = plain.describe_rows(pixels, filters, flat, chain, rows)
    found, weights = plain.encode(points.flatten(0, 2), words, chain)
    table = pixels.new_zeros(n, plain.n_cells(chain.partition, grid) * len(words))
    found, weights = (codes.reshape(n, -1, codes.shape[1]) for codes in (found, weights))
    return plain.pool(found, weights, len(words), chain, grid, grid, rows, table)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("pooling", ["sum", "max"])
@pytest.mark.parametrize("encoding", ["soft", "llc"])
def test_differentiable(encoding, pooling, device):
    """Gradients of the whole chain by pixels, filters and words, against differences."""
    rng = np.random.RandomState(0)
    filters = rng.randn(3, 3, 3).astype(np.float32)
    options = {"codebook": rng.rand(6, 3).astype(np.float32), "window": 1, "n_neighbors": 4,
               "encoding": encoding, "partition": (2, 2), "pooling": pooling,
               "padding": "same"}  # fmt: skip
    chain = Chain(filters=filters, **PLAIN | options)
    arrays = [rng.rand(2, 7, 8) * 255, filters, chain.codebook]
    tensors = [torch.tensor(a, dtype=torch.float64, device=device, requires_grad=True) for a in arrays]
    # On a GPU the order of additions, and so their last bits, are left to chance.
    assert torch.autograd.gradcheck(
        lambda pixels, filters, words: one_scale(pixels, filters, words, chain),
        tensors,
        nondet_tol=1e-9,
    )


def test_gradients_of_flat_places_are_finite():
    rng = np.random.RandomState(0)
    options = {"codebook": rng.rand(9, 24).astype(np.float32), "encoding": "soft", "padding": "same"}
    chain = Chain(filters=rng.randn(4, 7, 7).astype(np.float32), **PLAIN | options)
    image = torch.zeros((1, 20, 20))
    image[:, 10:] = 100
    filters, words = (torch.tensor(a, requires_grad=True) for a in (chain.filters, chain.codebook))
    filters.data -= filters.data.mean(dim=(1, 2), keepdim=True)
    one_scale(image, filters, words, chain).square().sum().backward()
    assert torch.isfinite(filters.grad).all() and filters.grad.abs().max() > 0
    assert torch.isfinite(words.grad).all() and words.grad.abs().max() > 0


def test_precision_switches_are_left_alone(mixed_images):
    switches = (torch.backends.cuda.matmul, torch.backends.cudnn.conv)
    before = [switch.fp32_precision for switch in switches]
    TorchEngine("cpu").prepare(make_chain(mixed_images)).pooled(mixed_images[1])
    assert [switch.fp32_precision for switch in switches] == before


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_no_cuda_is_said(mixed_images):
    with pytest.raises(RuntimeError, match=r'device="cpu"'):
        MidFea(engine="torch", device="cuda").fit(mixed_images)


def test_missing_torch_is_said():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import midfea.engines\n"
        "try: midfea.engines.get_engine('torch')\n"
        "except ImportError as error: print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == f'engine="torch" needs PyTorch: {install_line("torch")}'
