"""`midfea bench`: how fast each part is on this machine, beside others in the same run."""

from __future__ import annotations

from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from midfea.cli.common import check_outputs, print_table, save_rows, warn
from midfea.cli.options import RowsFile, Seed

if TYPE_CHECKING:
    from midfea.bench.common import Inputs
    from midfea.provenance import Row


class Section(StrEnum):
    """The files of midfea.bench."""

    stages = "stages"
    paper_table = "paper-table"
    peers = "peers"
    search = "search"
    kmeans = "kmeans"
    growth = "growth"
    all = "all"


PAPER_TABLE = ("midfea", "KSPM", "ScSPM", "LLC")
DEFAULT = (Section.stages, Section.peers, Section.search)
# The title of each section's table; its columns, each with the text made of a row.
TABLES: dict[Section, tuple[str, dict[str, str]]] = {
    Section.stages: (
        "Stages of one image:",
        {"stage": "{stage}", "ms": "{ms_per_image:.2f}", "paper, MATLAB": "{paper}"},
    ),
    Section.paper_table: (
        "Inference of one image, ms on one core; the paper's in MATLAB:",
        {"step": "{step}"}
        | {
            title: f"{{{title}:{form}}}"
            for name in PAPER_TABLE
            for title, form in ((name, ".2f"), (f"{name}, paper", ",.0f"))
        },
    ),
    Section.peers: (
        "The whole feature, beside others:",
        {
            "method": "{method}",
            "threads": "{threads}",
            "ms for each image": "{ms_per_image:.2f}",
            "times midfea": "{ratio:.2f}",
        },
    ),
    Section.search: (
        "The nearest words of an image's descriptors, and how many differ from brute force:",
        {
            "method": "{method}",
            "words": "{words}",
            "k": "{k}",
            "ms": "{ms_per_image:.2f}",
            "ratio": "{ratio:.2f}",
            "compared": "{compared:,}",
            "different": "{different:,}",
            "beyond ties": "{beyond_ties:,}",
        },
    ),
    Section.kmeans: (
        "k-means, beside scikit-learn:",
        {
            "method": "{method}",
            "clusters": "{clusters:,}",
            "descriptors": "{points:,}",
            "rounds": "{max_iter}",
            "seconds": "{seconds:.2f}",
            "times midfea": "{ratio:.2f}",
            "inertia": "{inertia:.1f}",
        },
    ),
    Section.growth: (
        "Growth, of filters without pairs; memory is that of the whole process:",
        {
            "what grows": "{growth}",
            "value": "{value:,}",
            "ms for each image": "{ms_per_image:.2f}",
            "MB before": "{start_mb:.0f}",
            "MB at most": "{peak_mb:.0f}",
        },
    ),
}


def bench(
    photos: Annotated[
        Path | None,
        typer.Argument(help="Folder of images. Default: the built-in set.", show_default=False),
    ] = None,
    json_file: RowsFile = None,
    size: Annotated[int, typer.Option(help="Images are made so many pixels square.", min=32)] = 150,
    images: Annotated[int, typer.Option(help="How many images to time.", min=2)] = 30,
    seed: Seed = 0,
    only: Annotated[
        list[Section] | None,
        typer.Option(
            help="Only this section (may be repeated). Default: stages, peers, search.",
            show_default=False,
        ),
    ] = None,
    kymatio: Annotated[
        str | None,
        typer.Option(
            metavar="PYTHON",
            help="An interpreter that has kymatio, for the peers: in an environment of its own, since "
            "kymatio needs scipy < 1.17.",
            show_default=False,
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.png", help="Draw the growth.", show_default=False)
    ] = None,
) -> None:
    """Time midfea on this machine, beside other methods in the same run.

    [bold]stages[/bold]  each step of the paper's system for one image
    [bold]paper-table[/bold]  the same beside KSPM, ScSPM and LLC, the paper's table (a minute)
    [bold]peers[/bold]   the whole feature beside HOG, SIFT and scattering
    [bold]search[/bold]  the nearest words, beside comparing with every word
    [bold]kmeans[/bold]  learning words, beside scikit-learn (a minute)
    [bold]growth[/bold]  time and memory against pixels, words, filters, images (minutes)

    Settings are the paper's: 9 filters, 1000 words, the 1-2-4 pyramid,
    random projection to 3000. Methods take turns and medians are shown, so
    that a busy machine slows all of them alike. Other methods are timed if
    they are installed (extra bench).

    Example: midfea bench PHOTOS --only all --json rows.json --plot growth.png
    """
    from midfea.bench.common import Inputs
    from midfea.bench.growth import plot_growth

    chosen = only or DEFAULT
    sections = [name for name in TABLES if name in chosen or Section.all in chosen]
    check_outputs(json_file)
    _check(sections, plot, kymatio)
    inputs = Inputs(photos, size, images, seed, kymatio)
    print(f"{len(inputs.squares)} images of {size}x{size} pixels, on one core unless said otherwise.\n")
    rows = [row for section in sections for row in _run(section, inputs)]
    save_rows(rows, json_file, [seed])
    if plot is not None:
        plot_growth(rows, plot)
        print(f"Picture: {plot}")
    wrong = sum(row["beyond_ties"] for row in rows if row.get("method") == "midfea search")
    if wrong:
        warn(f"WRONG ANSWERS: {wrong} descriptors got other words than brute force finds, ties aside")
        raise typer.Exit(1)


def _check(sections: list[Section], plot: Path | None, kymatio: str | None) -> None:
    """ValueError or OSError before any long work."""
    from midfea.bench.growth import check_plot
    from midfea.bench.peers import check_kymatio

    if plot is not None:
        if Section.growth not in sections:
            raise ValueError("--plot draws the growth: add --only growth or --only all")
        check_plot(plot)
    if kymatio is not None and Section.peers in sections:
        check_kymatio(kymatio)


def _run(section: Section, inputs: Inputs) -> list[Row]:
    """Measure a section and print its table."""
    from midfea.progress import progress_bars

    module = import_module(f"midfea.bench.{section.name}")
    with progress_bars():
        rows, remarks, missing = module.measure(inputs)
    title, columns = TABLES[section]
    print(title)
    table = [[_cell(text, row) for text in columns.values()] for row in rows if "exponent" not in row]
    print_table(tuple(columns), table)
    for line in remarks:
        print(line)
    for line in missing:
        warn(line)
    return list(rows)


def _cell(text: str, row: Row) -> str:
    try:
        return text.format(**row)
    except TypeError:  # None: not known on this machine
        return ""
