"""Rows of measured numbers, and where they come from: commit, date, machine, versions and seeds."""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from midfea.files import replacing

Row = dict[str, Any]
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "pillow", "torch")


def about(seeds: Iterable[int]) -> Row:
    """{"commit", "date", "machine", "versions", "seeds"} of what is measured now, by this code."""
    return {
        "commit": commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.system()} {platform.machine()}, {_processor()}, {_n_cores()} cores",
        "versions": {"python": platform.python_version(), **_versions(("midfea", *LIBRARIES))},
        "seeds": list(seeds),
    }


def command_line(changes: Mapping[Path, Path] | None = None) -> str:
    """What the user typed, as a shell would take it; with other paths, if some are to change."""
    program = Path(sys.argv[0]).name
    words = ["midfea" if program in ("-c", "__main__.py") else program]
    for argument in sys.argv[1:]:
        option, equals, _ = argument.partition("=")  # such as --data=photos
        start = option + equals if equals and option.startswith("-") else ""
        new = (changes or {}).get(Path(argument.removeprefix(start)))
        words.append(argument if new is None else f"{start}{new}")
    return shlex.join(words)


def commit() -> str:
    """The commit of this source tree, "+changes" if a Python file differs; without git the version.

    On a machine without git, MIDFEA_COMMIT says it.
    """
    folder = Path(__file__).parent
    # A package that was installed into somebody's repository is not part of it.
    if _git(folder, "ls-files", "--error-unmatch", Path(__file__).name) is None:
        version_text = f"midfea {_versions(('midfea',)).get('midfea', 'of unknown version')}"
        return os.environ.get("MIDFEA_COMMIT") or version_text
    changed = _git(folder, "status", "--porcelain", "--", ":(top)*.py")
    return f"{_git(folder, 'rev-parse', 'HEAD')}{'+changes' if changed else ''}"


def make_row(
    dataset: str, method: str, metric: str, values: Sequence[float], paper: float | None = None
) -> Row:
    """A row of a table: mean and deviation of the trials' values."""
    import numpy as np

    spread = {"mean": round(float(np.mean(values)), 3), "std": round(float(np.std(values)), 3)}
    trials = {"trials": len(values), "paper": paper}
    return {"dataset": dataset, "method": method, "metric": metric, **spread, **trials}


def write_rows(rows: Sequence[Mapping[str, Any]], path: Path, seeds: Iterable[int]) -> None:
    """The rows as JSON, each on its line with its "about", which may be its own; the file or nothing."""
    origin = {"about": about(seeds)}
    lines = [json.dumps({**row, **origin, **row}, ensure_ascii=False) for row in rows]
    with replacing(path) as temporary:
        temporary.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False
        )
    except OSError:  # no git here
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _versions(names: Iterable[str]) -> dict[str, str]:
    """Of what is installed; nothing is imported for it."""
    installed = {}
    for name in names:
        try:
            installed[name] = version(name)
        except PackageNotFoundError:
            continue
    return installed


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else "unknown processor"


def _n_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
