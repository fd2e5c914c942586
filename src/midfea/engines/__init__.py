"""The same chain at different speeds, chosen by name: "reference", "cpu", "torch", or "auto"."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TypeGuard

from midfea.engines.chain import Chain, Encoding, Scaled, min_side
from midfea.engines.prepared import BatchedChain, Codes, Engine, PreparedChain, Projection

NAMES = ("auto", "reference", "cpu", "torch")


@dataclass(frozen=True)
class EngineSettings:
    """Which engine, and where it works. Only the torch engine has a choice of devices and precision."""

    name: str = "auto"
    device: str | None = None
    precision: str = "exact"

    @property
    def engine(self) -> Engine:
        """The engine itself."""
        return get_engine(self.name, self.device, self.precision)


@lru_cache(maxsize=8)
def get_engine(name: str, device: str | None = None, precision: str = "exact") -> Engine:
    """The engine of that name, imported only now (the kernels of one may need what others do not)."""
    if name not in NAMES:
        raise ValueError(f"engine is one of {', '.join(map(repr, NAMES))}, got {name!r}")
    if name == "torch":
        from midfea.engines.torch.engine import TorchEngine

        return TorchEngine(device, precision)
    if name == "reference":
        from midfea.engines.reference import ReferenceEngine

        return ReferenceEngine()
    from midfea.engines.cpu.engine import CpuEngine

    return CpuEngine()


def is_batched(prepared: PreparedChain) -> TypeGuard[BatchedChain]:
    """Whether a prepared chain gains from many images at once."""
    return hasattr(prepared, "features")


__all__ = [
    "BatchedChain",
    "Chain",
    "Codes",
    "Encoding",
    "Engine",
    "EngineSettings",
    "PreparedChain",
    "Projection",
    "Scaled",
    "get_engine",
    "is_batched",
    "min_side",
]
