"""The command as a user runs it, in a process of its own."""

import os
import re
import subprocess
import sys


def midfea(*arguments, cwd=None, **environment):
    result = subprocess.run(
        [sys.executable, "-c", "from midfea.cli import main; main()", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "COLUMNS": "200", **environment},
        check=False,
    )
    assert "Traceback" not in result.stderr
    return result


def without_progress(stderr):
    """Without the lines that long work writes where there is no terminal."""
    return re.sub(r"^midfea: [^\n]*, \d+ %[^\n]*\n", "", stderr, flags=re.MULTILINE)


def fails_in_one_line(result, *words):
    assert result.returncode == 1
    lines = result.stderr.strip().splitlines()
    assert lines[-1].startswith("midfea: error: ")
    for word in words:
        assert word in lines[-1]
