"""Mutants: take one safety away at a time, and see whether the tests notice.

    python tools/mutants.py [--only TEXT] [--jobs N] [--json FILE] [--check]

The list is in tools/mutants/*.toml: what is broken, in which file of src/midfea, which text is replaced
by which, and the tests that must fail. Source and tests are copied: the working tree is never touched.
The tests are first run without a mutant. Exit code 1 if fewer than 95 % are killed, or one does not
apply.
"""

from __future__ import annotations

import argparse
import ast
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from midfea.provenance import write_rows

ROOT = Path(__file__).parent.parent
LIST = ROOT / "tools/mutants"
MIN_KILLED = 0.95
MAX_SECONDS = 180  # of one mutant's tests; tests that hang have noticed
MAX_SECONDS_UNMUTATED = 1200
KILLED, SURVIVED, NOT_APPLYING = "killed", "SURVIVED", "does not apply"
FAILED, PASSED = 1, 0  # pytest's exit codes; the others mean that no test has run


class Mutant(NamedTuple):
    """One change of one file below src/midfea, and the tests that must fail with it."""

    area: str
    breaks: str
    file: str
    old: str
    new: str
    tests: list[str]

    def problem(self, root: Path) -> str | None:
        """Why it does not apply to a source tree; None if it does."""
        path = root / "src/midfea" / self.file
        if not path.is_file():
            return f"there is no file {self.file}"
        n_times = path.read_text().count(self.old)
        if n_times != 1:
            return f"the old text occurs {n_times} times in {self.file}"
        try:
            ast.parse(self.applied(path.read_text()))
        except SyntaxError as error:
            return f"the new text is no Python: {error}"
        missing = [test for test in self.tests if not _has_test(root, test)]
        return f"there is no test {', '.join(missing)}" if missing or not self.tests else None

    def applied(self, text: str) -> str:
        """The file's text with the change."""
        return text.replace(self.old, self.new)


class Outcome(NamedTuple):
    """What became of a mutant; `noticed_by` is the first test that failed, or why none ran."""

    result: str
    noticed_by: str
    seconds: float


def _has_test(root: Path, test: str) -> bool:
    file, *names = test.split("::")
    path = root / "tests" / file
    if not path.is_file():
        return False
    text = path.read_text()
    for depth, name in enumerate(names):
        if not re.search(rf"^{4 * depth * ' '}(def|class) {name}\b", text, re.MULTILINE):
            return False
    return True


def read_mutants(only: str = "") -> list[Mutant]:
    """Those of the list whose area, file or description contains a text."""
    found = []
    for path in sorted(LIST.glob("*.toml")):
        found += [Mutant(path.stem, **each) for each in tomllib.loads(path.read_text())["mutant"]]
    return [m for m in found if only.lower() in f"{m.area} {m.file} {m.breaks}".lower()]


class Copy:
    """A copy of source and tests in which one mutant after the other is applied."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("src", "tests"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        for name in ("kernels", "tmp"):
            (folder / name).mkdir()

    @contextmanager
    def mutated(self, mutant: Mutant) -> Iterator[Path]:
        """The copy with a mutant, and the folder of compiled kernels that belongs to it."""
        path = self.folder / "src/midfea" / mutant.file
        before, times = path.read_text(), path.stat()
        path.write_text(mutant.applied(before))
        try:
            if "njit" not in before:
                yield self.folder / "kernels"
                return
            with tempfile.TemporaryDirectory(dir=self.folder) as own:  # it must be compiled anew
                yield Path(own)
        finally:
            path.write_text(before)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # kernels are known by it

    def run(self, tests: list[str], kernels: Path, seconds: float) -> tuple[int | None, str]:
        """Exit code and output of pytest; None if it took too long."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        places = {
            "PYTHONPATH": str(self.folder / "src"),
            "NUMBA_CACHE_DIR": str(kernels),
            "TMPDIR": str(self.folder / "tmp"),
            "PYTHONDONTWRITEBYTECODE": "1",  # a mutant may have the size and the time of the last one
        }
        with tempfile.TemporaryFile("w+", dir=self.folder) as output:
            process = subprocess.Popen(
                [*command, *(f"tests/{test}" for test in tests)],
                cwd=self.folder,
                env=os.environ | one_thread | places,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            code: int | None = None
            with suppress(subprocess.TimeoutExpired):
                code = process.wait(seconds)
            with suppress(ProcessLookupError):  # also what a mutant has left running
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            output.seek(0)
            return code, output.read()


def judge(mutant: Mutant, copy: Copy) -> Outcome:
    """Apply a mutant, run its tests, and take it back."""
    problem = mutant.problem(copy.folder)
    if problem is not None:
        return Outcome(NOT_APPLYING, problem, 0.0)
    start = time.monotonic()
    with copy.mutated(mutant) as kernels:
        code, output = copy.run(mutant.tests, kernels, MAX_SECONDS)
    seconds = round(time.monotonic() - start, 1)
    if code is None:
        return Outcome(KILLED, f"tests hung for {MAX_SECONDS} s", seconds)
    if code < 0:
        return Outcome(KILLED, f"tests crashed with signal {-code}", seconds)
    if code == FAILED:
        failed = re.search(r"^(?:FAILED|ERROR) tests/\S+?::(\w+)", output, re.MULTILINE)
        return Outcome(KILLED, failed[1] if failed else "?", seconds)
    if code == PASSED:
        return Outcome(SURVIVED, output.strip().splitlines()[-1], seconds)
    return Outcome(NOT_APPLYING, f"no test ran: pytest ended with {code}", seconds)


def run_all(mutants: list[Mutant], folder: Path, n_jobs: int) -> Iterator[tuple[Mutant, Outcome]]:
    """Every mutant with its outcome, in the order of the list; SystemExit if tests fail without any."""
    copies = [Copy(folder / str(i)) for i in range(n_jobs)]
    first = copies[0]
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    code, output = first.run(tests, first.folder / "kernels", MAX_SECONDS_UNMUTATED)
    print(f"without a mutant: {output.strip().splitlines()[-1]}", flush=True)
    if code != PASSED:
        raise SystemExit(f"{output[-5000:]}\nThe tests fail without a mutant: mend them first.")
    free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    for copy in copies:
        free.put(copy)

    def one(mutant: Mutant) -> Outcome:
        copy = free.get()
        try:
            return judge(mutant, copy)
        finally:
            free.put(copy)

    with ThreadPoolExecutor(n_jobs) as pool:
        yield from zip(mutants, pool.map(one, mutants), strict=True)


def check(mutants: list[Mutant]) -> int:
    """Say which mutants do not apply to the source as it is."""
    problems = [f"{m.area}: {m.breaks}: {p}" for m in mutants if (p := m.problem(ROOT))]
    print("\n".join(problems) or f"All {len(mutants)} mutants apply")
    return bool(problems)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", metavar="TEXT", help="area, file or description has it")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="mutants at the same time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows, too")
    parser.add_argument("--check", action="store_true", help="only see whether all apply")
    given = parser.parse_args()
    mutants = read_mutants(given.only)
    if given.check or not mutants:
        return check(mutants) or not mutants
    start, rows = time.monotonic(), []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for mutant, outcome in run_all(mutants, Path(folder), max(1, given.jobs)):
            rows.append({"area": mutant.area, "breaks": mutant.breaks, **outcome._asdict()})
            line = f"{outcome.result:14} {mutant.area:9} {mutant.breaks:62} {outcome.noticed_by}"
            print(line, flush=True)
    counts = Counter(row["result"] for row in rows)
    share = counts[KILLED] / len(rows)
    told = ", ".join(f"{counts[result]} {result}" for result in (KILLED, SURVIVED, NOT_APPLYING))
    print(f"{len(rows)} mutants: {told} ({share:.1%}), {time.monotonic() - start:.0f} s")
    if given.json:
        write_rows(rows, given.json, seeds=())
    return share < MIN_KILLED or counts[NOT_APPLYING] > 0


if __name__ == "__main__":
    sys.exit(main())
