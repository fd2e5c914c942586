"""Two source trees beside each other: the same benchmarks, taking turns, and the ratios new / old.

    python benchmarks/side_by_side.py --data DIR --old OLD/src --new NEW/src [--turns 5] [--only fit]

Each benchmark runs in a process of its own, one tree after the other in every turn, with PYTHONPATH
set to the tree; medians over the turns are compared. Scripts are those beside the tree
(OLD/benchmarks), because old ones call the old interface. Only what they print is read.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

from common import CLASSES_INSIDE, make_parser

Numbers = dict[str, float]  # the name of a line to its number; less is better


class Benchmark(NamedTuple):
    """What to run, with {tree}, {data}, {photos} and {json} filled in, and how to read its output."""

    command: list[str]
    read: Callable[[str, Path], Numbers]


def from_rows(name: str, value: str) -> Callable[[str, Path], Numbers]:
    """From the rows of `--json`."""

    def read(output: str, file: Path) -> Numbers:
        rows = json.loads(file.read_text())
        return {str(row[name]): float(row[value]) for row in rows if name in row and value in row}

    return read


def from_json_lines(name: str, value: str) -> Callable[[str, Path], Numbers]:
    """From lines of JSON on standard output."""

    def read(output: str, file: Path) -> Numbers:
        rows = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        return {str(row[name]): float(row[value]) for row in rows}

    return read


def from_text(pattern: str) -> Callable[[str, Path], Numbers]:
    """From lines such as "import midfea   0.03 s"."""

    def read(output: str, file: Path) -> Numbers:
        return {name.strip(): float(value) for name, value in re.findall(pattern, output, re.MULTILINE)}

    return read


BENCHMARKS = {
    "stages": Benchmark(
        ["-m", "midfea", "bench", "{photos}", "--images", "60", "--only", "stages", "--json", "{json}"],
        from_rows("stage", "ms_per_image"),
    ),
    "search": Benchmark(
        ["-m", "midfea", "bench", "{photos}", "--images", "60", "--only", "search", "--json", "{json}"],
        lambda output, file: {
            f"{row['words']} words, {row['k']} nearest": row["ms_per_image"]
            for row in json.loads(file.read_text())
            if row["method"] == "midfea search"
        },
    ),
    "answer": Benchmark(
        ["{tree}/../benchmarks/answer.py", "--data", "{data}", "--only", "best", "fast", "paper"],
        from_json_lines("method", "median ms"),
    ),
    "startup": Benchmark(["{tree}/../benchmarks/startup.py"], from_text(r"^(.+?)\s+([\d.]+) s$")),
    "fit": Benchmark(
        ["{tree}/../benchmarks/fit.py"], from_text(r"^(\S+)\s+\d+ images\s+([\d.]+) s")
    ),  # --data is taken from the environment: old scripts know nothing else
    "doors": Benchmark([str(Path(__file__).with_name("doors.py"))], from_text(r"^(.+?)   ([\d.]+) ms$")),
}


def run(benchmark: Benchmark, tree: Path, data: Path) -> Numbers:
    """One run with this tree; ValueError with the last line of its errors if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.json"
        photos = data / CLASSES_INSIDE["caltech101"]
        names = {"tree": tree, "data": data, "photos": photos, "json": file}
        command = [sys.executable, *(part.format(**names) for part in benchmark.command)]
        environment = os.environ | {"PYTHONPATH": str(tree), "MIDFEA_DATA": str(data)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise ValueError(f"{tree}: {' '.join(command[1:3])} failed: {reason}")
        return benchmark.read(done.stdout, file)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--old", type=Path, required=True, metavar="SRC_DIR")
    parser.add_argument("--new", type=Path, required=True, metavar="SRC_DIR")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, default=list(BENCHMARKS))
    given = parser.parse_args()
    trees = {"old": given.old.resolve(), "new": given.new.resolve()}
    print(f"{'':40}{'old':>10}{'new':>10}{'new / old':>11}")
    for name in given.only:
        measured: dict[str, dict[str, list[float]]] = {"old": {}, "new": {}}
        try:
            for turn in range(given.turns):
                # Who goes first changes, lest one of them always finds the machine warm.
                for which in list(trees) if turn % 2 == 0 else list(trees)[::-1]:
                    for line, value in run(BENCHMARKS[name], trees[which], given.data).items():
                        measured[which].setdefault(line, []).append(value)
        except ValueError as error:
            print(f"{name}: {error}", flush=True)
            continue
        for line in [line for line in measured["new"] if line in measured["old"]]:
            old, new = (median(measured[which][line]) for which in ("old", "new"))
            label, ratio = f"{name}: {line}"[:39], new / max(old, 1e-9)
            print(f"{label:40}{old:10.3f}{new:10.3f}{ratio:11.3f}", flush=True)


if __name__ == "__main__":
    main()
