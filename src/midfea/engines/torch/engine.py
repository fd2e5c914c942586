"""The engine for GPUs (and, for tests, for CPUs): many images of one size at a time, through torch.

`plain` is the chain in torch's own operations, and gives the same results everywhere. On CUDA devices
the paper's chain (hard VQ, max pooling) runs in kernels of our own, `fused`, if Triton is installed;
there is no other difference between them than time. This engine does without numba and the cpu engine.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from midfea.engines.chain import Chain, Codes, Search
from midfea.pictures.images import Grey

try:
    import torch
except ImportError:
    raise ImportError('engine="torch" needs PyTorch: pip install "midfea[torch]"') from None

from midfea.engines.torch import plain  # isort: skip
from midfea.engines.torch.resize import resize  # isort: skip

Precision = Literal["exact", "fast"]

IMAGES = 512  # of one size handed to the device at once, at most
READY = 128  # of one size: enough for a device that has nothing else to do
PIXELS = 2**28  # of images that wait for others of their size, at most
WAITING = 2**25  # numbers of results that wait on the device, at most
KEPT = 12  # fitted arrays that stay on the device: of some three models
LEAST = 2**16  # numbers in flight; if even so few do not fit, there is no use in trying on
_lock = threading.RLock()  # torch's switches for reduced precision are the whole process's


class TorchEngine:
    """`BatchEngine` on one device."""

    def __init__(self, device: str | None = None, precision: Precision = "exact") -> None:
        if device is None:
            device = "cuda" if torch.cuda.is_available() else "cpu"
        if torch.device(device).type == "cuda" and not torch.cuda.is_available():
            raise RuntimeError(
                f"device={device!r}, but this PyTorch ({torch.__version__}) sees no CUDA device: use "
                'device="cpu", or install a build for your GPU (https://pytorch.org/get-started)'
            )
        self.device = torch.device(device)
        self.precision = precision
        self._in_flight: int | None = None
        self._copies: Any = torch.cuda.Stream(self.device) if self.device.type == "cuda" else None
        self._kept: dict[int, tuple[Any, dict[Any, Any]]] = {}
        self._fused = _kernels(self.device)

    # -- one image, as every engine ---------------------------------------------------------------

    def describe(self, image: Grey, chain: Chain) -> NDArray[np.float32]:
        with exact_products():
            pixels = plain.prepare(self._pixels([image]), chain, torch.float32)
            filters = self._constant(chain.filters)
            rows = self._rows_at_once(chain, chain.grid(image.shape), 1)
            flat = plain.flat_of(pixels, filters, chain, 2 * rows)
            found = [
                plain.describe_rows(pixels, filters, flat, chain, strip)[0].cpu()
                for strip in plain.strips(chain.grid(image.shape)[0], rows)
            ]
            return torch.cat(found).numpy()

    def search(self, words: NDArray[np.float32]) -> Search:
        there = torch.tensor(np.asarray(words, np.float32), device=self.device)

        def nearest(points: NDArray[np.float32]) -> NDArray[np.int32]:
            with exact_products():
                found = plain.nearest(torch.tensor(points, device=self.device), there, 1)
            return found[:, 0].to(torch.int32).cpu().numpy()

        return nearest

    def encode(self, descriptors: NDArray[Any], chain: Chain) -> Codes:
        flat = torch.tensor(
            descriptors.reshape(-1, descriptors.shape[-1]), dtype=torch.float32, device=self.device
        )
        with exact_products():
            words, weights = plain.encode(flat, self._constant(chain.words()), chain)
        shape = descriptors.shape[:-1] if weights is None else (*descriptors.shape[:-1], words.shape[1])
        found = words.to(torch.int32).cpu().numpy().reshape(shape)
        return found, None if weights is None else weights.cpu().numpy().reshape(shape)

    def codes(self, image: Grey, chain: Chain) -> Codes:
        return self.encode(self.describe(image, chain), chain)

    def pooled(self, image: Grey, chain: Chain) -> NDArray[np.float32]:
        return self.pooled_many([image], chain)[0]

    def project(self, codes: NDArray[np.float32], matrix: sp.csr_array) -> NDArray[np.float32]:
        with exact_products():
            return self._projected(torch.tensor(codes, device=self.device), matrix).cpu().numpy()

    # -- learning ---------------------------------------------------------------------------------

    @contextmanager
    def arrays(self) -> Iterator[Callable[[NDArray[Any]], Any]]:
        """See `midfea.engines.arrays_on`."""
        with exact_products(), torch.no_grad():
            yield lambda array: torch.tensor(array, device=self.device)

    # -- many images ------------------------------------------------------------------------------

    def pooled_many(self, images: Sequence[Grey], chain: Chain) -> NDArray[np.float32]:
        """`pooled` of images of any sizes: (n, n_codes)."""
        return self.features(images, len(images), chain, None, None, unit=False)

    def features(
        self,
        images: Iterable[Grey],
        n_images: int,
        chain: Chain,
        matrix: Any,
        mean: NDArray[Any] | None,
        unit: bool = True,
    ) -> NDArray[np.float32]:
        """Pooled codes, less `mean`, times `matrix`, unit length; only the result leaves the device.

        The device works on the first images while later ones are still being read, and while others are
        copied to it and results from it, on a stream of their own.
        """
        out: NDArray[np.float32] | None = None
        # Triton works on the current device.
        current = torch.cuda.device(self.device) if self._copies is not None else nullcontext()
        with exact_products(), torch.no_grad(), current:
            ready: list[Any] = []
            waiting: list[int] = []
            arrive: Callable[[], None] | None = None
            for indices, codes in self._groups(images, chain):
                if mean is not None:
                    codes = codes - self._constant(mean)
                if matrix is not None:
                    codes = self._projected(codes, matrix)
                if unit:
                    codes = plain.unit_length(codes.double(), 1).float()
                if out is None:
                    out = np.empty((n_images, codes.shape[1]), dtype=np.float32)
                ready.append(codes)
                waiting += indices
                if len(waiting) * codes.shape[1] > WAITING:
                    # The results before these are taken while these are on their way.
                    before, arrive = arrive, self._sent(ready, waiting, out)
                    if before is not None:
                        before()
                    ready, waiting = [], []
            assert out is not None  # there is at least one image
            if ready:
                self._sent(ready, waiting, out)()
            if arrive is not None:
                arrive()
        return out

    def _sent(
        self, ready: list[Any], waiting: list[int], out: NDArray[np.float32]
    ) -> Callable[[], None]:
        """Results on their way to the host; call it to have them in the rows of `out` that wait."""
        codes = torch.cat(ready)
        done: Any = None
        if self._copies is not None:
            there = torch.empty(codes.shape, dtype=codes.dtype, pin_memory=True)
            with self._copying(codes):
                there.copy_(codes, non_blocking=True)
                done = self._copies.record_event()
            codes = there

        def arrive() -> None:
            if done is not None:
                done.synchronize()
            out[waiting] = codes.numpy()

        return arrive

    @contextmanager
    def _copying(self, tensor: Any) -> Iterator[None]:
        """Copies from this tensor, which is ready when the work asked for so far is done."""
        self._copies.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self._copies):
            yield
        tensor.record_stream(self._copies)

    def _groups(self, images: Iterable[Grey], chain: Chain) -> Iterator[tuple[list[int], Any]]:
        """Indices and codes of images of one size together, as they come."""
        by_size: dict[Any, list[tuple[int, Grey]]] = {}
        n_pixels = 0
        for i, image in enumerate(images):
            kind = (image.shape, image.dtype)
            by_size.setdefault(kind, []).append((i, image))
            n_pixels += image.size
            n = len(by_size[kind])
            if n == IMAGES or (n >= READY and self._idle()):
                n_pixels -= n * image.size
                yield from self._parts(by_size.pop(kind), chain)
            elif n_pixels > PIXELS:
                together, by_size, n_pixels = by_size, {}, 0
                for group in together.values():
                    yield from self._parts(group, chain)
        for group in by_size.values():
            yield from self._parts(group, chain)

    def _idle(self) -> bool:
        return self._copies is not None and torch.cuda.current_stream(self.device).query()

    def _parts(self, group: list[tuple[int, Grey]], chain: Chain) -> Iterator[tuple[list[int], Any]]:
        """A group at once, or halved for as long as the device has too little memory."""
        shape = group[0][1].shape
        start = 0
        while start < len(group):
            part = group[start : start + self._images_at_once(chain, chain.grid(shape))]
            try:
                codes = self._codes([image for _, image in part], chain)
            except RuntimeError as error:
                if not _out_of_memory(error):
                    raise
                self._halve(shape)
                continue
            yield [i for i, _ in part], codes
            start += len(part)

    def _codes(self, images: list[Grey], chain: Chain) -> Any:
        """Pooled codes of images of one size, over all scales."""
        filters, words = self._constant(chain.filters), self._constant(chain.words())
        table, full_shape = None, None
        llc = None if self._fused is None else self._fused.llc_weights
        originals = self._pixels(images)
        for scaled_shape in chain.scaled_shapes(images[0].shape):
            shape = chain.grid(scaled_shape)
            full_shape = full_shape or shape
            rows = self._rows_at_once(chain, shape, len(images))
            pixels = resize(originals, scaled_shape)
            if self._fused is None or not self._fused.can_run(chain) or rows < shape[0]:
                table = plain.pooled_codes(pixels, filters, words, chain, full_shape, table, rows, llc)
                continue
            if table is None:
                n_codes = plain.n_cells(chain.partition, full_shape) * len(words)
                table = torch.zeros((len(images), n_codes), device=self.device)
            tables = self._tables(chain, shape, full_shape)
            self._fused.pooled_codes(pixels, filters, *tables, chain, table, self.precision == "exact")
        return table

    def _tables(self, chain: Chain, shape: tuple[int, int], full_shape: tuple[int, int]) -> Any:
        """What the kernels read, kept for each codebook and size of images."""
        fused: Any = self._fused
        settings = (chain.pairs, chain.window)
        places = (shape, full_shape, tuple(chain.partition))
        words = chain.words()
        return (
            self._keep(words, settings, lambda: fused.prepare(chain, self.device)),
            self._keep(words, places, lambda: fused.cells_of(chain, shape, full_shape, self.device)),
        )

    def _projected(self, codes: Any, matrix: Any) -> Any:
        if not sp.issparse(matrix):
            return codes @ self._constant(matrix)
        there = self._constant(matrix)
        return torch.sparse.mm(there, codes.T).T

    # -- memory -----------------------------------------------------------------------------------

    def _numbers_in_flight(self) -> int:
        """How many float32 may exist at one time; less after each time that memory was too small."""
        if self._in_flight is None:
            if self.device.type == "cuda":
                self._in_flight = torch.cuda.mem_get_info(self.device)[0] // 16
            else:
                self._in_flight = 2**25
        return self._in_flight

    def _halve(self, shape: tuple[int, ...]) -> None:
        if self._numbers_in_flight() // 2 < LEAST:
            raise MemoryError(
                f"{self.device} has too little memory for an image of {shape[0]}x{shape[1]} pixels, "
                "even row by row: use smaller images (max_side), or another device"
            ) from None
        self._in_flight = self._numbers_in_flight() // 2
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _images_at_once(self, chain: Chain, grid: tuple[int, int]) -> int:
        each = math.prod(grid) * _numbers_per_descriptor(chain)
        return max(1, min(IMAGES, self._numbers_in_flight() // each))

    def _rows_at_once(self, chain: Chain, grid: tuple[int, int], n_images: int) -> int:
        row = n_images * grid[1] * _numbers_per_descriptor(chain)
        return max(1, min(grid[0], self._numbers_in_flight() // row))

    def _pixels(self, images: Sequence[Grey]) -> Any:
        """A stack on the device, copied there while it may still work on others."""
        whole = images[0].dtype == np.uint8
        stack = torch.empty(
            (len(images), *images[0].shape),
            dtype=torch.uint8 if whole else torch.float32,
            pin_memory=self._copies is not None,
        )
        np.stack(images, out=stack.numpy())
        if self._copies is None:
            return stack
        with torch.cuda.stream(self._copies):
            pixels = stack.to(self.device, non_blocking=True)
        torch.cuda.current_stream(self.device).wait_stream(self._copies)
        pixels.record_stream(torch.cuda.current_stream(self.device))
        return pixels

    def _constant(self, array: Any) -> Any:
        """A fitted array on the device, as float32; sparse ones transposed."""

        def make() -> Any:
            if not sp.issparse(array):
                return torch.tensor(np.asarray(array, np.float32), device=self.device)
            matrix = sp.csr_array(array.T)
            parts = (torch.as_tensor(part) for part in (matrix.indptr, matrix.indices, matrix.data))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # CSR is "in beta state", checks are off by default
                tensor = torch.sparse_csr_tensor(*parts, size=matrix.shape, check_invariants=True)
                return tensor.to(self.device)

        return self._keep(array, None, make)

    def _keep(self, array: Any, name: Any, make: Callable[[], Any]) -> Any:
        """What was made of a fitted array, which never changes: made once, and kept for a while."""
        if id(array) not in self._kept:
            while len(self._kept) >= KEPT:
                self._kept.pop(next(iter(self._kept)))
            self._kept[id(array)] = (array, {})  # with the array, so that its id stays its own
        made = self._kept[id(array)][1]
        if name not in made:
            made[name] = make()
        return made[name]


def _numbers_per_descriptor(chain: Chain) -> int:
    """What the plain path stores for each descriptor, in float32, roughly."""
    d = chain.n_components
    codes = 12 if chain.encoding == "vq" else chain.n_neighbors * (6 * d + 60)
    return 4 * len(chain.filters) * (math.prod(chain.filters.shape[1:]) // 8 + 8) + 3 * d + codes


def _out_of_memory(error: RuntimeError) -> bool:
    """On a CUDA device, or on the CPU, where torch has no error of its own for it."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def _kernels(device: Any) -> Any:
    """The module `fused`, where it was tried: Hopper's tensor cores or later. None elsewhere.

    Also None without Triton, which not every build of torch for CUDA has.
    """
    if device.type != "cuda" or torch.cuda.get_device_capability(device) < (9, 0):
        return None
    try:
        from midfea.engines.torch import fused
    except ImportError:
        return None
    return fused


@contextmanager
def exact_products() -> Iterator[None]:
    """Products of float32 in float32: no tf32, whatever the process allows elsewhere."""
    switches = (torch.backends.cuda.matmul, torch.backends.cudnn.conv)
    with _lock:
        before = [switch.fp32_precision for switch in switches]
        try:
            for switch in switches:
                switch.fp32_precision = "ieee"
            yield
        finally:
            for switch, value in zip(switches, before, strict=True):
                switch.fp32_precision = value
