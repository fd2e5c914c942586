"""Files appear whole or not at all: with a disk that is really full, and a process really killed."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import time

import pytest

from midfea.files import ENDING, MAX_AGE_SECONDS, check_writable, open_regular, replacing


def test_a_full_disk_leaves_the_old_file(small_disk):
    target = small_disk / "model"
    target.write_text("the old model")
    with pytest.raises(OSError, match="No space left"), replacing(target) as temporary:
        temporary.write_bytes(bytes(10**6))
    assert target.read_text() == "the old model"
    assert os.listdir(small_disk) == ["model"]


def test_a_writer_that_fails_leaves_the_old_file(tmp_path):
    target = tmp_path / "model"
    target.write_text("the old model")
    with pytest.raises(OSError, match="the disk is gone"), replacing(target) as temporary:
        temporary.write_text("half")
        raise OSError("the disk is gone")
    assert target.read_text() == "the old model"
    assert os.listdir(tmp_path) == ["model"]


def test_a_reader_keeps_the_file_that_it_has_opened(tmp_path):
    """The new file takes the name of the old one, whose content is never written over."""
    target = tmp_path / "model"
    target.write_text("the old model")
    with target.open() as reader:
        with replacing(target) as temporary:
            temporary.write_text("the new model")
            assert target.read_text() == "the old model"
        assert reader.read() == "the old model"
    assert target.read_text() == "the new model"


def test_a_new_file_has_the_usual_rights(tmp_path):
    old = os.umask(0o027)
    try:
        with replacing(tmp_path / "new") as temporary:
            temporary.write_text("x")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


WRITER = """
import os, sys, time
from midfea.files import replacing
number = 0
print("ready", flush=True)
while True:
    number += 1
    with replacing(sys.argv[1]) as temporary, temporary.open("wb") as file:
        for _ in range(50):
            file.write(number.to_bytes(4, "little") * 5000)
            file.flush()
"""


def test_a_killed_writer_leaves_the_old_or_the_new_file(tmp_path):
    """Writing straight to the target, or copying over it, would leave half a file at some kill."""
    target = tmp_path / "model"
    n_left = 0
    for turn in range(12):
        process = subprocess.Popen([sys.executable, "-c", WRITER, target], stdout=subprocess.PIPE)
        process.stdout.readline()
        time.sleep(0.05 + 0.013 * turn)
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        process.stdout.close()
        if target.exists():
            content = target.read_bytes()
            assert len(content) == 1_000_000
            assert content == content[:4] * 250_000
        n_left = max(n_left, len([name for name in os.listdir(tmp_path) if name.endswith(ENDING)]))
    assert target.exists()
    assert n_left  # some kill came while a file was unfinished


def test_files_of_killed_writers_are_swept(tmp_path):
    old, young, other = (tmp_path / f".{name}.ab{ENDING}" for name in ("model", "model.x", "else"))
    for path in (old, young, other):
        path.touch()
    somebodys = tmp_path / ".model.backup"
    somebodys.touch()
    for path in (old, other, somebodys):
        os.utime(path, (time.time() - 2 * MAX_AGE_SECONDS,) * 2)
    check_writable(tmp_path / "model")
    assert not old.exists()
    assert young.exists()
    assert other.exists()
    assert somebodys.exists()


def test_the_content_reaches_the_disk_before_the_name_changes(tmp_path):
    """The order of system calls, as the kernel saw them: write, fsync, rename, fsync of the folder."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    code = "import sys; from midfea.files import replacing\n"
    code += "with replacing(sys.argv[1]) as t: t.write_text('hello')"
    log = tmp_path / "log"
    traced = [strace, "-f", "-o", log, "-e", "trace=write,fsync,rename,renameat,renameat2"]
    subprocess.run([*traced, sys.executable, "-c", code, tmp_path / "x"], check=True)
    calls = log.read_text().splitlines()
    written = next(i for i, line in enumerate(calls) if "hello" in line)
    order = [
        line.split("(")[0].split()[-1] for line in calls[written:] if "fsync" in line or "rename" in line
    ]
    assert order[:3] in (["fsync", name, "fsync"] for name in ("rename", "renameat", "renameat2"))


def test_only_regular_files_are_opened(tmp_path):
    for path in (tmp_path, "/dev/null"):
        with pytest.raises(OSError, match=r"not a regular file|is a folder"):
            open_regular(path)


def test_nobody_waits_for_the_writer_of_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    code = "import sys; from midfea.files import open_regular; open_regular(sys.argv[1])"
    command = [sys.executable, "-c", code, tmp_path / "pipe"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert "is not a regular file" in done.stderr
