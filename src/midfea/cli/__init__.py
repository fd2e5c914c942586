"""The `midfea` command: one small file for each sub-command."""

from __future__ import annotations

import io
import os
import sys
import warnings

import typer

from midfea import __version__
from midfea.cli import (
    bench,
    compare,
    demo,
    evaluate,
    explain,
    export,
    extract,
    info,
    manifest,
    plan,
    predict,
    serve,
    train,
)
from midfea.cli.common import warn
from midfea.cli.reproduce import reproduce

app = typer.Typer(
    name="midfea",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Learn to classify images from a small labelled set, on a CPU, in minutes.",
    epilog="Start with [bold]midfea demo[/bold], then: midfea train PHOTOS -o model.midfea",
)
MODULES = (
    demo,
    train,
    predict,
    evaluate,
    info,
    explain,
    serve,
    export,
    manifest,
    plan,
    extract,
    compare,
    bench,
)
for module in MODULES:
    app.command()(vars(module)[module.__name__.rpartition(".")[2]])
app.add_typer(reproduce, name="reproduce")


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"midfea {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show the version."
    ),
) -> None:
    pass


def main() -> None:
    """Run the command; whatever goes wrong is said in one line, without a traceback."""
    for stream in (sys.stdout, sys.stderr):  # names of files can be any bytes
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="surrogateescape" if stream is sys.stdout else "backslashreplace")
    if not os.environ.get("MIDFEA_DEBUG"):
        warnings.showwarning = lambda message, *_: warn(str(message))
    try:
        app(prog_name="midfea")  # also for python -m midfea, and for the shell's completion
    except SystemExit as ended:
        if ended.code == 130:  # what typer makes of Ctrl-C
            warn("interrupted, no unfinished file is left")
        raise
    except Exception as error:
        if os.environ.get("MIDFEA_DEBUG"):
            raise
        warn(f"error: {_explained(error)}")
        sys.exit(1)


def _explained(error: Exception) -> str:
    message = " ".join(str(error).split())
    if isinstance(error, ValueError | OSError | ImportError) and message:  # a user can mend these
        return message
    if isinstance(error, MemoryError):
        return f"not enough memory: give fewer or smaller images. {message}"
    name = type(error).__name__
    return f"this should not happen ({name}: {message}): please report it, and what MIDFEA_DEBUG=1 shows"
