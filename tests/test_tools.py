"""The check of private names, types and sizes finds what it is for; the list of mutants is true."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parent.parent / "tools"
CHECK = TOOLS / "check_private.py"


def check(tree: Path, source: str, name: str = "src/package/module.py") -> tuple[int, str]:
    file = tree / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(source)
    done = subprocess.run([sys.executable, CHECK, "."], cwd=tree, capture_output=True, text=True)
    assert not done.stderr
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("def _features(): model._features()", "private name of another object: model._features"),
        ("model._features(images)", "private name of another object: model._features"),
        ("self.part._state = 1", "private name of another object: self.part._state"),
        ("from package.other import _helper", "import of a private name: package.other._helper"),
        ("from . import _other", "import of a private name: _other"),
        ("import package._other", "import of a private name: package._other"),
        ("def draw(model: Any): ...", "part of a model without a type: model: Any"),
        ("def draw(*, classifier: typing.Any | None = None): ...", "classifier: Any"),
        ("class Job:\n    estimator: Any", "estimator: Any"),
    ],
)
def test_a_crossed_seam_is_reported(tmp_path, line, message):
    code, output = check(tmp_path, f"x = 1\n{line}\n")
    assert code == 1
    n_before = line.count("\n")
    assert output.startswith(f"src/package/module.py:{2 + n_before}: ") and message in output
    assert output.count("\n") == 1


def test_what_is_public_or_ones_own_passes(tmp_path):
    source = """
import os
from collections import namedtuple
from typing import Any

class Part:
    _parameter_constraints: dict = {}

    def __init__(self, other):
        self._state = other._state  # of its own class
        super()._prepare()

    @classmethod
    def make(cls, settings: Any, model: dict[str, Any]):
        return cls._build(_helper(settings))

def _helper(point):
    module = __import__("os")
    module._exit(point._replace(x=1)._asdict(), point.__class__, point._repr_html_())
    return _helper
"""
    assert check(tmp_path, source) == (0, "Public names only: 1 files\n")


@pytest.mark.parametrize(("n_lines", "code"), [(60, 0), (61, 1)])
def test_long_functions(tmp_path, n_lines, code):
    body = "    x = 1\n" * (n_lines - 1)
    docstring = '    """One.\n\n    Two.\n    """\n'
    result = check(tmp_path, f"def work():\n{docstring}{body}")
    assert result[0] == code
    if code:
        assert result[1] == "src/package/module.py:1: function work: 61 lines, above 60\n"
        assert check(tmp_path / "elsewhere", f"def work():\n{body}", "tests/a/test_x.py")[0] == 0
        kernel = f"def assign():\n{body}"
        name = "src/midfea/engines/torch/kernels.py"
        assert check(tmp_path / "kernel", kernel, name)[0] == 0


@pytest.mark.parametrize("suffix", ["py", "js"])
def test_long_files(tmp_path, suffix):
    name = f"src/package/long.{suffix}"
    assert check(tmp_path, "x = 1\n" * 400, name)[0] == 0
    assert check(tmp_path, "x = 1\n" * 401, name) == (1, f"{name}:1: file: 401 lines, above 400\n")


def test_every_mutant_applies():
    """The text that it replaces occurs once, and the tests that must notice it are there."""
    command = [sys.executable, TOOLS / "mutants.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
