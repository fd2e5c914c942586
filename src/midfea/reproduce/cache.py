"""Finished work on disk, named by everything it depends on: inputs, settings, and the code itself."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from midfea import __version__

# The source files of the package that decide a number.
FOLDERS = ("stages", "engines", "pictures", "datasets", "learning", "estimators", "baselines")
SOURCES = (*(f"{folder}/**/*.py" for folder in FOLDERS), "reproduce/*.py")


@lru_cache(maxsize=1)
def code_key() -> str:
    """Of the version of the package and its source: another code never finds these files again."""
    package = Path(__file__).parents[1]
    digest = hashlib.sha256(__version__.encode())
    for pattern in SOURCES:
        for path in sorted(package.glob(pattern)):
            digest.update(f"{path.relative_to(package)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def content_key(*parts: Any) -> str:
    """A name for what these values, arrays among them, and the code determine."""
    digest = hashlib.sha256(code_key().encode())
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype}{part.shape}".encode())
            digest.update(np.ascontiguousarray(part).tobytes())
        elif isinstance(part, list):
            for item in part:
                digest.update(content_key(item).encode())
        else:
            digest.update(json.dumps(part, sort_keys=True).encode())
    return digest.hexdigest()[:32]
