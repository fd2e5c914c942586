"""Argument lists for the command in a small folder: exit code 0, 1 or 2, and errors that it explains."""

from __future__ import annotations

import os
import shutil
from functools import cache
from pathlib import Path
from random import Random

from PIL import Image
from typer.testing import CliRunner

import scratch
from harnesses.images import plain_files
from midfea.cli import app
from midfea.datasets import load_surfaces
from models import KEPT

COMMANDS = ("predict", "predict", "evaluate", "explain", "export", "train", "compare", "bench", "x", "")
LONG = ("compare", "bench", "serve", "demo", "reproduce")  # only with arguments that they refuse
PLACES = (
    *("m.midfea", "m.midfea", "photos", "photos", "photos/a", "photos/a/0.png", "damaged.png", "empty"),
    *("text.txt", "missing", "damaged.midfea", "old.onnx", "é ü.png", ".", "", "-", "photos/*", "pipe"),
)
OUTPUTS = (
    "out.midfea",
    "out.png",
    "out.html",
    "out.onnx",
    "photos",
    "missing/x",
    "m.midfea",
    "",
    "x" * 300,
)
OPTIONS: dict[str, tuple[str, ...]] = {
    "--output": OUTPUTS,
    "-o": OUTPUTS,
    "--report": OUTPUTS,
    "--json": OUTPUTS,
    "--format": ("table", "csv", "json", "x", ""),
    "--top": ("1", "3", "99999", "0", "-1", "x"),
    "--threshold": ("0", "0.5", "1", "2", "-1", "nan", "x"),
    "--jobs": ("1", "2", "0", "-1", "x"),
    "--preset": ("fast", "x", ""),
    "--seed": ("0", "1", "-1", "4294967296", "x"),
    "--label": ("a", "crack", "missing", ""),
    "--photos": PLACES,
    "--help": (),
    "--version": (),
    "--x": ("1",),
}


def case(random: Random) -> None:
    """A command in a fresh folder."""
    arguments = _arguments(random)
    scratch.note("\n".join(arguments))
    folder = scratch.folder() / "commands"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(_template(), folder, copy_function=shutil.copyfile)
    os.mkfifo(folder / "pipe")
    os.chdir(folder)
    given = random.choice((b"", b"photos/a/0.png\nmissing\n", b"\0", b"\xff\n"))
    result = CliRunner().invoke(app, arguments, input=given, prog_name="midfea")
    error = result.exception
    # What `main` prints in one line.
    if error is not None and not isinstance(error, SystemExit | ValueError | OSError | ImportError):
        raise error
    assert result.exit_code in (0, 1, 2), result.exit_code
    assert "Traceback" not in result.output, result.output
    left = [path.name for path in folder.iterdir() if path.name.endswith(".unfinished")]
    assert not left, left


def warm_up() -> None:
    """Compile what training and answering need."""
    folder = _template()
    os.chdir(folder)
    train = ["train", "photos", "--preset", "fast", "-o"]
    for arguments in ([*train, "/dev/null/x"], ["predict", "m.midfea", "photos"]):
        CliRunner().invoke(app, arguments, prog_name="midfea")
    CliRunner().invoke(app, [*train, str(scratch.folder() / "x"), "--jobs", "1"])
    os.chdir(folder)
    for arguments in (["explain", "m.midfea", "photos/a/0.png"], ["export", "m.midfea"]):
        CliRunner().invoke(app, [*arguments, "-o", str(scratch.folder() / "x.png")], prog_name="midfea")


@cache
def _template() -> Path:
    folder = scratch.folder() / "template"
    data = load_surfaces(n_per_class=3, size=32, random_state=0)
    for i, image in enumerate(data.images[:6]):
        label = folder / "photos" / "ab"[i % 2]
        label.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.astype("uint8")).save(label / f"{i}.png")
    (folder / "empty").mkdir()
    shutil.copyfile(KEPT / "fast-v2.midfea", folder / "m.midfea")
    (folder / "damaged.midfea").write_bytes((folder / "m.midfea").read_bytes()[:9000])
    (folder / "old.onnx").write_bytes(b"no ONNX at all")
    (folder / "damaged.png").write_bytes(plain_files()[5][:60])
    (folder / "é ü.png").write_bytes(plain_files()[9])
    (folder / "text.txt").write_text("hello")
    return folder


def _arguments(random: Random) -> list[str]:
    command = random.choice((*COMMANDS, *(LONG if random.random() < 0.1 else ())))
    arguments = [command] if command else []
    arguments += [random.choice(PLACES) for _ in range(random.choice((0, 1, 2, 2, 2, 3)))]
    for _ in range(random.choice((0, 0, 1, 1, 2, 3))):
        option = random.choice(sorted(OPTIONS))
        arguments.append(option)
        if OPTIONS[option] and random.random() < 0.95:
            arguments.append(random.choice(OPTIONS[option]))
    if random.random() < 0.7 and command in ("predict", "explain", "export", "evaluate"):
        arguments.insert(1, "m.midfea")
    if command == "train" and "--preset" not in arguments:
        arguments += ["--preset", "fast"]  # the usual one takes minutes
    if command in LONG:
        arguments += ["--x", random.choice(PLACES)]
    return arguments
