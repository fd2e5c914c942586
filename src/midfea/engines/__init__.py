"""The same steps at different speeds, chosen by name: "reference", "cpu", "torch", or "auto"."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeGuard, cast

import numpy as np
from numpy.typing import NDArray

from midfea.arrays import Array
from midfea.engines.chain import BatchEngine, Chain, Codes, Encoding, Engine, min_side

ENGINES = {"auto": "cpu.engine", "reference": "reference", "cpu": "cpu.engine", "torch": "torch"}


def get_engine(name: str, device: str | None = None, precision: str = "exact") -> Engine:
    """The engine of that name, imported only now (the kernels of one may need what others do not).

    Only the torch engine has a choice of devices, and of precision.
    """
    if name not in ENGINES:
        raise ValueError(f"engine is one of {', '.join(map(repr, ENGINES))}, got {name!r}")
    if name == "torch":
        return cast(Engine, _torch_engine(device, precision))
    return cast(Engine, importlib.import_module(f"midfea.engines.{ENGINES[name]}"))


@lru_cache(maxsize=8)
def _torch_engine(device: str | None, precision: str) -> Any:
    return importlib.import_module("midfea.engines.torch.engine").TorchEngine(device, precision)


@contextmanager
def arrays_on(name: str, device: str | None = None) -> Iterator[Callable[[NDArray[Any]], Array]]:
    """In this context, a function that puts arrays where the engine of that name works.

    For `learning`, whose code takes numpy's arrays and torch's. Those of the torch engine are not
    differentiated, and their float32 products are true ones.
    """
    if name != "torch":
        yield np.asarray
        return
    with _torch_engine(device, "exact").arrays() as put:
        yield put


def takes_batches(engine: Engine) -> TypeGuard[BatchEngine]:
    """Whether an engine gains from many images at once. (`isinstance` of a protocol takes 0.1 ms.)"""
    return hasattr(engine, "pooled_many")


__all__ = [
    "BatchEngine",
    "Chain",
    "Codes",
    "Encoding",
    "Engine",
    "arrays_on",
    "get_engine",
    "min_side",
    "takes_batches",
]
