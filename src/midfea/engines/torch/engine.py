"""The engine for GPUs (and, for tests, for CPUs): many images of one size at a time, through torch.

`plain` is the chain in torch's own operations, and gives the same results everywhere. On CUDA devices
the paper's chain (hard VQ, max pooling) runs in kernels of our own, `fused`, if Triton is installed;
there is no other difference between them than time. This engine does without numba and the cpu engine.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from midfea.arrays import Array
from midfea.engines.chain import Chain, Scaled, levels_of
from midfea.engines.prepared import Codes, Projection, Search
from midfea.engines.torch.device import MAX_IMAGES_AT_ONCE, Device, out_of_memory
from midfea.engines.walk import codes_by_scale, pooled_codes
from midfea.pictures.resize import Grey

import torch  # isort: skip  (`device` says what to install if it is missing)
from midfea.engines.torch import plain  # isort: skip

MIN_IMAGES_TO_START = 128  # of one size: enough for a device that has nothing else to do
MAX_WAITING_PIXELS = 2**28  # of images that wait for others of their size
MAX_WAITING_NUMBERS = 2**25  # of results that wait on the device


class ScaledStack(NamedTuple):
    """Images of one size at one scale, on the device."""

    pixels: Any  # (n, height, width)
    grid: tuple[int, int]  # of descriptors
    full_grid: tuple[int, int]  # of the largest scale


class TorchChain:
    """A chain and its projection as tensors on a device; the steps of `midfea.engines.walk`."""

    def __init__(
        self, chain: Chain, projection: Projection | None, device: Device, exact: bool, fused: Any
    ) -> None:
        self.chain = chain
        self.projection = Projection() if projection is None else projection
        self._device, self._exact = device, exact
        self._fused = fused if fused is not None and chain.codebook is not None else None
        self._filters = device.put(np.asarray(chain.filters, np.float32))
        self._words = None if chain.codebook is None else device.put(chain.words.astype(np.float32))
        self._mean = None if self.projection.mean is None else device.put(self.projection.mean)
        self._matrix = _on_device(self.projection.matrix, device)
        self._kernel_words: Any = None
        self._kernel_cells: dict[Any, Any] = {}

    # -- one image ----------------------------------------------------------------------------------

    def descriptors(self, image: Grey) -> NDArray[np.float32]:
        """See `PreparedChain`."""
        grid = self.chain.grid(image.shape)
        with self._device.working():
            stack = ScaledStack(self._device.pixels([image]), grid, grid)
            return torch.cat([part[0].cpu() for _, part in self.describe(stack)]).numpy()

    def codes_by_scale(self, image: Grey) -> list[tuple[Scaled, Codes]]:
        """See `PreparedChain`."""
        scaled_codes = []
        with self._device.working():
            for stack, strips in codes_by_scale(self._device.pixels([image]), self):
                _, words, weights = zip(*strips, strict=True)
                found = _joined(words, stack.grid).astype(np.int32)
                codes = Codes(found, None if weights[0] is None else _joined(weights, stack.grid))
                levels = levels_of(self.chain.partition, stack.grid, stack.full_grid)
                scaled_codes.append((Scaled(stack.pixels[0].cpu().numpy(), levels), codes))
        return scaled_codes

    def pooled(self, image: Grey) -> NDArray[np.float32]:
        """See `PreparedChain`."""
        return self.features([image], 1, projected=False)[0]

    def project(self, pooled: NDArray[np.float32]) -> NDArray[np.float32]:
        """See `PreparedChain`."""
        with self._device.working():
            return self._projected(self._device.put(pooled)).cpu().numpy()

    # -- the steps of the walk ----------------------------------------------------------------------

    def scales(self, image: Any) -> Iterator[ScaledStack]:
        """See `midfea.engines.walk.Steps`; `image` is a stack of images of one size."""
        shapes = self.chain.scaled_shapes(tuple(image.shape[1:]))
        full_grid = self.chain.grid(shapes[0])
        for shape in shapes:
            pixels = plain.resize(image, shape, self.chain.rounded)
            yield ScaledStack(pixels, self.chain.grid(shape), full_grid)

    def describe(self, scaled: ScaledStack) -> Iterator[tuple[tuple[int, int], Any]]:
        """See `midfea.engines.walk.Steps`: rows, and their descriptors (n, rows, columns, d).

        A few rows of the grid at a time: all at once might not fit.
        """
        rows = self._device.rows_at_once(self.chain, scaled.grid, len(scaled.pixels))
        pixels = plain.prepare(scaled.pixels, self.chain, torch.float32)
        flat = plain.flat_of(pixels, self._filters, self.chain, 2 * rows)
        for strip in plain.strips(scaled.grid[0], rows):
            yield strip, plain.describe_rows(pixels, self._filters, flat, self.chain, strip)

    def encode(
        self, descriptors: Iterable[tuple[tuple[int, int], Any]]
    ) -> Iterator[tuple[tuple[int, int], Any, Any]]:
        """See `midfea.engines.walk.Steps`: rows, and words and weights (n, places, k) of each strip."""
        weigh_llc = None if self._fused is None else self._fused.llc_weights
        for strip, points in descriptors:
            words, weights = plain.encode(points.flatten(0, 2), self._words, self.chain, weigh_llc)
            shape = (len(points), -1, words.shape[1])
            yield strip, words.reshape(shape), None if weights is None else weights.reshape(shape)

    def pool(self, codes: Any, scaled: ScaledStack, table: Any) -> Any:
        """See `midfea.engines.walk.Steps`; the kernels do all steps at once."""
        if table is None:
            n_cells = plain.n_cells(self.chain.partition, scaled.full_grid)
            n_codes = n_cells * len(self.chain.words)
            table = torch.zeros((len(scaled.pixels), n_codes), device=self._device.device)
        if self._pooled_by_kernels(scaled, table):
            return table
        sizes = (scaled.grid, scaled.full_grid)
        for strip, words, weights in codes:
            table = plain.pool(words, weights, len(self.chain.words), self.chain, *sizes, strip, table)
        return table

    def _pooled_by_kernels(self, scaled: ScaledStack, table: Any) -> bool:
        rows = self._device.rows_at_once(self.chain, scaled.grid, len(scaled.pixels))
        if self._fused is None or not self._fused.can_run(self.chain) or rows < scaled.grid[0]:
            return False
        if self._kernel_words is None:
            self._kernel_words = self._fused.prepare(self.chain, self._device.device)
        sizes = (scaled.grid, scaled.full_grid)
        if sizes not in self._kernel_cells:
            self._kernel_cells[sizes] = self._fused.cells_of(self.chain, *sizes, self._device.device)
        tables = (self._kernel_words, self._kernel_cells[sizes])
        self._fused.pooled_codes(scaled.pixels, self._filters, *tables, self.chain, table, self._exact)
        return True

    # -- many images ----------------------------------------------------------------------------------

    def features(
        self, images: Iterable[Grey], n_images: int, projected: bool = True
    ) -> NDArray[np.float32]:
        """See `BatchedChain`; only the result leaves the device.

        The device works on the first images while later ones are still being read, and while others are
        copied to it and results from it.
        """
        out: NDArray[np.float32] | None = None
        arrivals: list[tuple[list[int], Callable[[], NDArray[np.float32]]]] = []
        with self._device.working():
            tables: list[Any] = []
            waiting: list[int] = []
            for indices, table in self._groups(images):
                tables.append(self._projected(table) if projected else table)
                waiting += indices
                if out is None:
                    out = np.empty((n_images, tables[0].shape[1]), dtype=np.float32)
                if len(waiting) * out.shape[1] > MAX_WAITING_NUMBERS:
                    arrivals.append((waiting, self._device.fetch(torch.cat(tables))))
                    tables, waiting = [], []
                    if len(arrivals) > 1:  # the results before these are taken meanwhile
                        rows, arrive = arrivals.pop(0)
                        out[rows] = arrive()
            if tables:
                arrivals.append((waiting, self._device.fetch(torch.cat(tables))))
            assert out is not None  # there is at least one image
            for rows, arrive in arrivals:
                out[rows] = arrive()
        return out

    def _projected(self, table: Any) -> Any:
        shifted = table if self._mean is None else table - self._mean
        if self._matrix is not None:
            sparse = sp.issparse(self.projection.matrix)
            shifted = torch.sparse.mm(self._matrix, shifted.T).T if sparse else shifted @ self._matrix
        return plain.unit_length(shifted.double(), 1).float()

    def _groups(self, images: Iterable[Grey]) -> Iterator[tuple[list[int], Any]]:
        """Indices and pooled codes of images of one size together, as they come."""
        by_size: dict[Any, list[tuple[int, Grey]]] = {}
        n_pixels = 0
        for i, image in enumerate(images):
            size = (image.shape, image.dtype)
            by_size.setdefault(size, []).append((i, image))
            n_pixels += image.size
            n = len(by_size[size])
            if n == MAX_IMAGES_AT_ONCE or (n >= MIN_IMAGES_TO_START and self._device.idle()):
                n_pixels -= n * image.size
                yield from self._parts(by_size.pop(size))
            elif n_pixels > MAX_WAITING_PIXELS:
                groups, by_size, n_pixels = by_size, {}, 0
                for group in groups.values():
                    yield from self._parts(group)
        for group in by_size.values():
            yield from self._parts(group)

    def _parts(self, group: list[tuple[int, Grey]]) -> Iterator[tuple[list[int], Any]]:
        """A group at once, or halved for as long as the device has too little memory."""
        shape = group[0][1].shape
        start = 0
        while start < len(group):
            n = self._device.images_at_once(self.chain, self.chain.grid(shape))
            part = group[start : start + n]
            try:
                table = pooled_codes(self._device.pixels([image for _, image in part]), self)
            except RuntimeError as error:
                if not out_of_memory(error):
                    raise
                self._device.halve(shape)
                continue
            yield [i for i, _ in part], table
            start += len(part)


def _joined(parts: Iterable[Any], grid: tuple[int, int]) -> NDArray[Any]:
    """The first image's words or weights in all strips of the grid."""
    return torch.cat([part[0] for part in parts]).reshape(*grid, -1).cpu().numpy()


def _on_device(matrix: Any, device: Device) -> Any:
    """A projection's matrix as float32; sparse ones transposed."""
    if matrix is None or not sp.issparse(matrix):
        return None if matrix is None else device.put(np.asarray(matrix, np.float32))
    rows = sp.csr_array(matrix.T)
    parts = (torch.as_tensor(part) for part in (rows.indptr, rows.indices, rows.data))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # CSR is "in beta state", checks are off by default
        tensor = torch.sparse_csr_tensor(*parts, size=rows.shape, check_invariants=True)
        return tensor.to(device.device)


class TorchEngine:
    """See `midfea.engines.prepared.Engine`."""

    def __init__(self, device: str | None = None, precision: str = "exact") -> None:
        self._device = Device(device)
        self._exact = precision == "exact"
        self._fused = _kernels(self._device.device)

    @property
    def device(self) -> str:
        """Where the engine works, such as "cuda:0"."""
        return str(self._device.device)

    def prepare(self, chain: Chain, projection: Projection | None = None) -> TorchChain:
        """See `Engine`."""
        return TorchChain(chain, projection, self._device, self._exact, self._fused)

    def search(self, words: NDArray[np.float32]) -> Search:
        """See `Engine`."""
        on_device = self._device.put(np.asarray(words, np.float32))

        def nearest(points: NDArray[np.float32]) -> NDArray[np.int32]:
            with self._device.working():
                indices = plain.nearest(self._device.put(points), on_device, 1)
            return indices[:, 0].to(torch.int32).cpu().numpy()

        return nearest

    @contextmanager
    def arrays(self) -> Iterator[Callable[[NDArray[Any]], Array]]:
        """See `Engine`."""
        with self._device.working():
            yield self._device.put


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
