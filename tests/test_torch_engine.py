"""The torch engine gives what the plain stages and the cpu engine give, on the same images.

The extra `test` does not bring PyTorch along: even its CPU build takes 750 MB. Where it is missing these
tests are skipped; where a GPU is present they run there too.
"""

import subprocess
import sys

import numpy as np
import pytest

import midfea
from midfea import MidFea, stages
from midfea.datasets import load_surfaces
from midfea.engines import Chain, get_engine
from midfea.pictures.images import rescale

from test_engines import CHAINS, assert_same_words, make_chain  # isort: skip

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install midfea[torch]")

from midfea.engines.torch import plain  # noqa: E402
from midfea.engines.torch.engine import TorchEngine  # noqa: E402
from midfea.engines.torch.resize import resize  # noqa: E402

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


@pytest.fixture(scope="module", params=DEVICES)
def engine(request):
    return TorchEngine(request.param)


def assert_same_codes(mine, theirs):
    """A tie decided the other way changes single entries; nothing else may differ."""
    assert mine.dtype == theirs.dtype == np.float32
    assert mine.shape == theirs.shape
    assert (np.abs(mine - theirs) > 1e-3).mean() < 0.002


@pytest.mark.parametrize("name", CHAINS)
def test_equals_reference(engine, mixed_images, name):
    chain = make_chain(mixed_images, **CHAINS[name])
    reference = get_engine("reference")
    for image in mixed_images:
        plain_descriptors = reference.describe(image, chain)
        np.testing.assert_allclose(engine.describe(image, chain), plain_descriptors, atol=1e-5)
        words, weights = engine.encode(plain_descriptors, chain)
        theirs, their_weights = reference.encode(plain_descriptors, chain)
        if weights is None:
            assert_same_words(words, theirs, plain_descriptors, chain.codebook)
        else:
            same = (words == theirs).all(axis=-1)
            assert same.mean() > 0.999
            np.testing.assert_allclose(weights[same], their_weights[same], atol=1e-4)
    # All at once, mixed sizes, some sizes twice: as one by one, and in the order given.
    images = [*mixed_images, mixed_images[2][::-1], mixed_images[0]]
    theirs = np.stack([reference.pooled(image, chain) for image in images[: len(mixed_images)]]) if (
        not isinstance(chain.partition, dict)
    ) else None  # fmt: skip
    if theirs is not None:
        mine = engine.pooled_many(images, chain)
        assert_same_codes(mine[: len(theirs)], theirs)
        np.testing.assert_array_equal(mine[-1], mine[0])
    for image in mixed_images:
        assert_same_codes(engine.pooled(image, chain), reference.pooled(image, chain))


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
    n_words, chain = options.pop("n_words"), Chain(filters, **options)
    reference, cpu = get_engine("reference"), get_engine("cpu")
    found = np.concatenate(
        [reference.describe(i, chain).reshape(-1, chain.n_components) for i in images]
    )
    some = np.random.RandomState(0).choice(len(found), n_words, replace=False)
    chain = Chain(filters, found[some] + np.float32(1e-3), **options)
    theirs = np.stack([reference.pooled(image, chain) for image in images])
    assert_same_codes(engine.pooled_many(images, chain), theirs)
    assert_same_codes(np.stack([cpu.pooled(image, chain) for image in images]), theirs)


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
    chain = Chain(filters, codebook, padding="same")
    theirs = np.stack([get_engine("reference").pooled(image, chain) for image in images])
    assert_same_codes(engine.pooled_many(images, chain), theirs)


def test_other_pixels(engine, mixed_images):
    images = [(image / 255).astype(np.float32) for image in mixed_images]
    chain = make_chain(images)
    for image in images:
        theirs = get_engine("reference").describe(image, chain)
        assert np.quantile(np.abs(engine.describe(image, chain) - theirs), 0.999) < 1e-3


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("factor", [0.37, 0.5, 0.71, 1.3, 2.0])
def test_resizes_as_pillow_does(device, factor):
    rng = np.random.RandomState(0)
    for shape in ((150, 99), (31, 64), (7, 200)):
        image = rng.randint(256, size=shape).astype(np.uint8)
        wanted = rescale(image, factor)
        mine = resize(torch.as_tensor(image, device=device)[None], wanted.shape)
        np.testing.assert_array_equal(mine[0].cpu().numpy(), wanted)
        image = rng.rand(*shape).astype(np.float32)
        mine = resize(torch.as_tensor(image, device=device)[None], wanted.shape)
        np.testing.assert_allclose(mine[0].cpu().numpy(), rescale(image, factor), rtol=1e-5)


def test_ties_go_to_the_first_word(engine):
    words = np.eye(4, dtype=np.float32)[[1, 0, 1, 0]]
    assert engine.search(words)(np.eye(4, dtype=np.float32)[:2]).tolist() == [1, 0]
    chain = Chain(np.zeros((2, 2, 2), np.float32), words, encoding="soft", n_neighbors=3)
    found, weights = engine.encode(np.eye(4, dtype=np.float32)[:1], chain)
    assert found.tolist() == [[1, 3, 0]]
    assert weights[0, 0] == weights[0, 1]


def test_images_may_come_one_by_one(engine, mixed_images, monkeypatch):
    """While they are read, groups of one size go to the device, of many sizes when too many wait."""
    chain = make_chain(mixed_images)
    images = [image for i in range(4) for image in np.roll(np.array(mixed_images, dtype=object), i)]
    wanted = engine.pooled_many(images, chain)
    options = (len(images), chain, None, None, False)
    np.testing.assert_array_equal(engine.features(iter(images), *options), wanted)
    monkeypatch.setattr(TorchEngine, "_idle", lambda self: True)
    for limits in ({"READY": 1}, {"READY": 3, "WAITING": 10**5}, {"PIXELS": 20_000}, {"IMAGES": 2}):
        for name, value in limits.items():
            monkeypatch.setattr(f"midfea.engines.torch.engine.{name}", value)
        np.testing.assert_array_equal(engine.features(iter(images), *options), wanted)


@pytest.mark.parametrize("name", ["paper", "fast", "soft"])
def test_strips_give_the_same(engine, mixed_images, name):
    """A picture too large for the memory is taken a few rows at a time."""
    chain = make_chain(mixed_images, **CHAINS[name])
    small = TorchEngine(engine.device)
    small._in_flight = 2**17
    assert_same_codes(small.pooled_many(mixed_images, chain), engine.pooled_many(mixed_images, chain))
    np.testing.assert_allclose(
        small.describe(mixed_images[0], chain), engine.describe(mixed_images[0], chain), atol=1e-6
    )


def test_out_of_memory_is_halved(mixed_images, monkeypatch):
    chain = make_chain(mixed_images, encoding="llc")
    engine = TorchEngine("cpu")
    wanted = engine.pooled_many(mixed_images[:1] * 4, chain)
    asked = []
    describe_rows = plain.describe_rows

    def small_device(pixels, filters, flat, chain, rows):
        asked.append(len(pixels) * (rows[1] - rows[0]))
        if asked[-1] > 20:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return describe_rows(pixels, filters, flat, chain, rows)

    monkeypatch.setattr(plain, "describe_rows", small_device)
    np.testing.assert_allclose(engine.pooled_many(mixed_images[:1] * 4, chain), wanted, atol=1e-5)
    assert asked[0] > 20 and max(asked[-4:]) <= 20


@pytest.mark.skipif(not torch.cuda.is_available(), reason="this is about a CUDA device's memory")
def test_little_device_memory(mixed_images):
    chain = make_chain(mixed_images, encoding="soft")
    images = mixed_images[:1] * 300
    wanted = TorchEngine("cuda").pooled_many(images, chain)
    torch.cuda.empty_cache()
    small = TorchEngine("cuda")
    before = small._numbers_in_flight()
    torch.cuda.set_per_process_memory_fraction(5e8 / torch.cuda.mem_get_info()[1])
    try:
        np.testing.assert_allclose(small.pooled_many(images, chain), wanted, atol=1e-5)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert small._numbers_in_flight() < before


def test_too_little_memory_is_said(mixed_images, monkeypatch):
    chain = make_chain(mixed_images)

    def no_device(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(plain, "describe_rows", no_device)
    with pytest.raises(MemoryError, match=r"80x80 pixels.*max_side"):
        TorchEngine("cpu").pooled(mixed_images[0], chain)


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
    exact, fast, simple = TorchEngine("cuda"), TorchEngine("cuda", "fast"), TorchEngine("cuda")
    simple._fused = None
    assert exact._fused is not None and exact._fused.can_run(chain)
    theirs = simple.pooled_many(images, chain)
    mine = exact.pooled_many(images, chain)
    assert set(np.unique(mine)) == {0, 1}
    assert (mine != theirs).mean() < 2e-4
    assert (fast.pooled_many(images, chain) != theirs).mean() < 0.01
    alone = np.stack([exact.pooled(image, chain) for image in images])
    np.testing.assert_array_equal(alone, mine)


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


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("pooling", ["sum", "max"])
@pytest.mark.parametrize("encoding", ["soft", "llc"])
def test_differentiable(encoding, pooling, device):
    """Gradients of the whole chain by pixels, filters and words, against differences."""
    rng = np.random.RandomState(0)
    filters = rng.randn(3, 3, 3).astype(np.float32)
    chain = Chain(filters, rng.rand(6, 3).astype(np.float32), window=1, n_neighbors=4, encoding=encoding,
                  partition=(2, 2), pooling=pooling, padding="same")  # fmt: skip
    arrays = [rng.rand(2, 7, 8) * 255, filters, chain.codebook]
    tensors = [torch.tensor(a, dtype=torch.float64, device=device, requires_grad=True) for a in arrays]
    # On a GPU the order of additions, and so their last bits, are left to chance.
    assert torch.autograd.gradcheck(
        lambda pixels, filters, words: plain.pooled_codes(pixels, filters, words, chain),
        tensors,
        nondet_tol=1e-9,
    )


def test_gradients_of_flat_places_are_finite():
    rng = np.random.RandomState(0)
    chain = Chain(rng.randn(4, 7, 7).astype(np.float32), rng.rand(9, 24).astype(np.float32),
                  encoding="soft", padding="same")  # fmt: skip
    image = torch.zeros((1, 20, 20))
    image[:, 10:] = 100
    filters, words = (torch.tensor(a, requires_grad=True) for a in (chain.filters, chain.codebook))
    filters.data -= filters.data.mean(dim=(1, 2), keepdim=True)
    plain.pooled_codes(image, filters, words, chain).square().sum().backward()
    assert torch.isfinite(filters.grad).all() and filters.grad.abs().max() > 0
    assert torch.isfinite(words.grad).all() and words.grad.abs().max() > 0


def test_precision_switches_are_left_alone(mixed_images):
    switches = (torch.backends.cuda.matmul, torch.backends.cudnn.conv)
    before = [switch.fp32_precision for switch in switches]
    TorchEngine("cpu").pooled(mixed_images[1], make_chain(mixed_images))
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
    assert said.stdout.strip() == 'engine="torch" needs PyTorch: pip install "midfea[torch]"'
