"""The same steps at different speeds, chosen by name: "reference", "cpu", or "auto"."""

from __future__ import annotations

import importlib
from typing import cast

from midfea.engines.chain import Chain, Codes, Encoding, Engine, min_side

ENGINES = {"auto": "cpu", "reference": "reference", "cpu": "cpu"}


def get_engine(name: str) -> Engine:
    """The engine of that name, imported only now (the kernels of one may need what others do not)."""
    if name not in ENGINES:
        raise ValueError(f"engine is one of {', '.join(map(repr, ENGINES))}, got {name!r}")
    return cast(Engine, importlib.import_module(f"midfea.engines.{ENGINES[name]}"))


__all__ = ["Chain", "Codes", "Encoding", "Engine", "get_engine", "min_side"]
