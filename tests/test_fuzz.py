"""The fuzzers find nothing in a moment, and would find a crash, a hang, an error or too much memory."""

import importlib
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

FUZZ = Path(__file__).resolve().parents[1] / "fuzz"
sys.path.append(str(FUZZ))
harness, runner = importlib.import_module("harness"), importlib.import_module("runner")

# So many cases take a second or less; a real run takes minutes (fuzz/README.md).
N_CASES = {"onnx": 40, "zip": 80, "api": 15, "command": 20}
MANY_CASES = 300


def test_nothing_is_found_in_a_moment(tmp_path):
    plans = [
        runner.Plan(name, seed=1, max_cases=N_CASES.get(name, MANY_CASES), seconds=2, findings=tmp_path)
        for name in harness.NAMES
    ]
    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(runner.run, reversed(plans)))
    for outcome in outcomes:
        assert outcome.cases > len(harness.corpus(outcome.name)), outcome
    found = [each for outcome in outcomes for each in outcome.findings]
    assert not found, "\n".join(f"{each.name} {each.case}: {each.message}" for each in found)


PLANTED = """
import os, signal, time
import numpy as np
from scratch import note

n_tried = 0

def case(random):
    global n_tried
    n_tried += 1
    note(f"input {n_tried}")
    if n_tried == 8:
        fail()

def fail():
    FAILURE
"""
FAILURES = {
    "crash": ("os.kill(os.getpid(), signal.SIGSEGV)", "crashed (SIGSEGV)"),
    "hang": ("time.sleep(60)", "took more than 1 s"),
    "exit": ("os._exit(3)", "crashed (exit code 3)"),
    "leave": ("raise SystemExit(0)", "SystemExit: 0"),
    "error": ("raise KeyError('x')", "KeyError: 'x'"),
    "promise": ("assert 1 > 2, 'not so'", "AssertionError: not so"),
    "memory": ("np.ones(150_000_000)", "took more than 1 GB"),
}


@pytest.mark.parametrize("kind", FAILURES)
def test_planted_bugs_are_found(tmp_path, monkeypatch, kind):
    failure, message = FAILURES[kind]
    name = f"planted_{kind}"
    (tmp_path / f"{name}.py").write_text(PLANTED.replace("FAILURE", failure))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = tmp_path / "findings"
    seconds = 1 if kind == "hang" else 20
    outcome = runner.run(runner.Plan(name, seed=5, max_cases=12, case_seconds=seconds, findings=found))
    assert [(each.case, each.last_line) for each in outcome.findings] == [("5:7", message)]
    assert outcome.cases == 12  # it went on after the finding
    assert (found / f"{name}-5-7.input").read_text() == "input 8"
    assert message in (found / f"{name}-5-7.txt").read_text()


def test_the_command_writes_rows(tmp_path):
    rows = tmp_path / "rows.json"
    command = [sys.executable, FUZZ / "run.py", "--only", "search", "--cases", "5", "--json", rows]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "search" in done.stdout
    (row,) = json.loads(rows.read_text())
    assert (row["harness"], row["cases"], row["findings"]) == ("search", 5, [])
    assert row["about"]["seeds"] == [0]
