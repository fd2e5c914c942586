"""The `midfea` command: one small file for each sub-command."""

from __future__ import annotations

import os
import sys

import typer

from midfea import __version__
from midfea.cli import bench, compare, demo, evaluate, explain, export, predict, serve, train
from midfea.cli.reproduce import reproduce

app = typer.Typer(
    name="midfea",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Learn to classify images from a small labelled set, on a CPU, in minutes.",
    epilog="Start with [bold]midfea demo[/bold], then: midfea train PHOTOS -o model.midfea",
)
for module in (demo, train, predict, evaluate, explain, serve, export, compare, bench):
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
    """Run the command; what the user can mend is said in one line, without a traceback."""
    try:
        app(prog_name="midfea")  # also for python -m midfea, and for the shell's completion
    except (ValueError, OSError, ImportError) as error:  # a missing extra is named with its pip line
        if os.environ.get("MIDFEA_DEBUG"):
            raise
        message = " ".join(str(error).split())
        print(f"midfea: error: {message}", file=sys.stderr)
        sys.exit(1)
    except SystemExit as ended:
        if ended.code == 130:  # what typer makes of Ctrl-C
            print("midfea: interrupted, no unfinished file is left", file=sys.stderr)
        raise
