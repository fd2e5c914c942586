"""One device of torch: what fits into its memory, and the copies to it and from it."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midfea.engines.chain import Chain
from midfea.extras import require
from midfea.pictures.resize import Grey

try:
    import torch
except ImportError:
    require("torch", 'engine="torch"')
    raise

MAX_IMAGES_AT_ONCE = 512  # of one size
MIN_NUMBERS_IN_FLIGHT = 2**16  # if even so few do not fit, there is no use in trying on
_precision_lock = threading.RLock()  # torch's switches for reduced precision are the whole process's


class Device:
    """A device, and how many numbers may be on it at one time."""

    def __init__(self, name: str | None) -> None:
        if name is None:
            name = "cuda" if torch.cuda.is_available() else "cpu"
        if torch.device(name).type == "cuda" and not torch.cuda.is_available():
            raise RuntimeError(
                f"device={name!r}, but this PyTorch ({torch.__version__}) sees no CUDA device: use "
                'device="cpu", or install a build for your GPU (https://pytorch.org/get-started)'
            )
        self.device = torch.device(name)
        self.numbers_in_flight = 2**25
        self._transfers: Any = None  # a stream of its own: the device works meanwhile
        if self.device.type == "cuda":
            self.numbers_in_flight = torch.cuda.mem_get_info(self.device)[0] // 16
            self._transfers = torch.cuda.Stream(self.device)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Exact products, no gradients, on this device (Triton works on the current one)."""
        current = nullcontext() if self._transfers is None else torch.cuda.device(self.device)
        with exact_products(), torch.no_grad(), current:
            yield

    def idle(self) -> bool:
        """Whether a CUDA device has nothing to do."""
        return self._transfers is not None and torch.cuda.current_stream(self.device).query()

    def put(self, array: NDArray[Any]) -> Any:
        """An array as a tensor on the device."""
        return torch.tensor(array, device=self.device)

    def pixels(self, images: Sequence[Grey]) -> Any:
        """Images of one size as a stack on the device, copied there while it may work on others."""
        whole = images[0].dtype == np.uint8
        stack = torch.empty(
            (len(images), *images[0].shape),
            dtype=torch.uint8 if whole else torch.float32,
            pin_memory=self._transfers is not None,
        )
        np.stack(images, out=stack.numpy())
        if self._transfers is None:
            return stack
        with torch.cuda.stream(self._transfers):
            pixels = stack.to(self.device, non_blocking=True)
        torch.cuda.current_stream(self.device).wait_stream(self._transfers)
        pixels.record_stream(torch.cuda.current_stream(self.device))
        return pixels

    def fetch(self, tensor: Any) -> Callable[[], NDArray[np.float32]]:
        """A tensor on its way to the host; call the result to wait for it."""
        if self._transfers is None:
            return tensor.numpy
        on_host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        self._transfers.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self._transfers):
            on_host.copy_(tensor, non_blocking=True)
            done = self._transfers.record_event()
        tensor.record_stream(self._transfers)

        def arrive() -> NDArray[np.float32]:
            done.synchronize()
            return on_host.numpy()

        return arrive

    def halve(self, shape: tuple[int, ...]) -> None:
        """Work on fewer numbers at a time, after the memory was too small for images of that shape."""
        if self.numbers_in_flight // 2 < MIN_NUMBERS_IN_FLIGHT:
            raise MemoryError(
                f"{self.device} has too little memory for an image of {shape[0]}x{shape[1]} pixels, "
                "even row by row: use smaller images (max_side), or another device"
            ) from None
        self.numbers_in_flight //= 2
        if self._transfers is not None:
            torch.cuda.empty_cache()

    def images_at_once(self, chain: Chain, grid: tuple[int, int]) -> int:
        """How many images with such a grid of descriptors fit."""
        per_image = math.prod(grid) * _numbers_per_descriptor(chain)
        return max(1, min(MAX_IMAGES_AT_ONCE, self.numbers_in_flight // per_image))

    def rows_at_once(self, chain: Chain, grid: tuple[int, int], n_images: int) -> int:
        """How many rows of the grid of descriptors fit, for so many images."""
        per_row = n_images * grid[1] * _numbers_per_descriptor(chain)
        return max(1, min(grid[0], self.numbers_in_flight // per_row))


def _numbers_per_descriptor(chain: Chain) -> int:
    """What the plain path stores for each descriptor, in float32, roughly."""
    d = chain.n_components
    codes = 12 if chain.encoding == "vq" else chain.n_neighbors * (6 * d + 60)
    return 4 * len(chain.filters) * (math.prod(chain.filters.shape[1:]) // 8 + 8) + 3 * d + codes


def out_of_memory(error: RuntimeError) -> bool:
    """On a CUDA device, or on the CPU, where torch has no error of its own for it."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


@contextmanager
def exact_products() -> Iterator[None]:
    """Products of float32 in float32: no tf32, whatever the process allows elsewhere."""
    switches = (torch.backends.cuda.matmul, torch.backends.cudnn.conv)
    with _precision_lock:
        before = [switch.fp32_precision for switch in switches]
        try:
            for switch in switches:
                switch.fp32_precision = "ieee"
            yield
        finally:
            for switch, value in zip(switches, before, strict=True):
                switch.fp32_precision = value
