"""Finished trials of long experiments, kept in a folder: an interrupted run goes on where it stood.

What is kept has a name made of everything it depends on: inputs, settings, and the code itself.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import joblib

from midfea.files import replacing

# The source files of the package that decide a number.
FOLDERS = ("stages", "engines", "pictures", "datasets", "learning", "estimators", "baselines")
SOURCES = (*(f"{folder}/**/*.py" for folder in FOLDERS), "reproduce/*.py", "bench/methods.py")

Result = dict[str, Any]  # of one trial: metrics by name, as JSON keeps them


@lru_cache(maxsize=1)
def code_key() -> str:
    """Of the package's source: another code never finds these files again."""
    package = Path(__file__).parent
    digest = hashlib.sha256()
    for pattern in SOURCES:
        for path in sorted(package.glob(pattern)):
            digest.update(f"{path.relative_to(package)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def content_key(*parts: Any) -> str:
    """A name for what these values, arrays among them, and the code determine."""
    return str(joblib.hash([code_key(), *parts]))


def default_cache() -> Path:
    """midfea's folder among the user's caches."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "midfea"


@dataclass
class Trials:
    """Finished trials in a folder; with None nothing is kept and nothing found.

    Attributes
    ----------
    n_found : how many results were in the folder already
    """

    folder: Path | None
    n_found: int = 0

    def result(self, key: str, measure: Callable[[], Result]) -> Result:
        """Of the trial of this name: found, or measured and kept."""
        if self.folder is None:
            return measure()
        path = self.folder / "trials" / f"{key}.json"
        if path.exists():
            self.n_found += 1
            return dict(json.loads(path.read_text()))
        result = measure()
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(result))
        return result
