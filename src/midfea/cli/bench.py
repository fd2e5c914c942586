"""`midfea bench`: how fast each part is on this machine, beside others in the same run."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from midfea.cli.common import Seed, print_table, warn

Rows = list[dict[str, Any]]


class Section(StrEnum):
    """The files of `midfea.bench`, by name."""

    stages = "stages"
    peers = "peers"
    search = "search"
    kmeans = "kmeans"
    growth = "growth"
    all = "all"


DEFAULT = (Section.stages, Section.peers, Section.search)
N_GROWTH = 8  # images at each point of `growth`


def bench(
    photos: Annotated[
        Path | None,
        typer.Argument(help="Folder of images. Default: the built-in set.", show_default=False),
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write the rows here.")] = None,
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
    [bold]peers[/bold]   the whole feature beside HOG, SIFT and scattering
    [bold]search[/bold]  the nearest words, beside comparing with every word
    [bold]kmeans[/bold]  learning words, beside scikit-learn (a minute)
    [bold]growth[/bold]  time and memory against pixels, words, filters, images (minutes)

    Settings are the paper's: 9 filters, 1000 words, the 1-2-4 pyramid,
    random projection to 3000. Methods take turns and medians are shown, so
    that a busy machine slows all of them alike. Other methods are timed if
    they are installed: pip install 'midfea\\[bench]'.

    Example: midfea bench PHOTOS --only all --json rows.json --plot growth.png
    """
    from midfea.bench.photos import square_images
    from midfea.bench.plot import check_plot, plot_growth
    from midfea.bench.scattering import check_kymatio
    from midfea.files import check_writable, replacing
    from midfea.progress import progress_bars

    wanted = set(only or DEFAULT)
    if Section.all in wanted:
        wanted = set(Section)
    if json_file is not None:
        check_writable(json_file)
    if plot is not None:
        if Section.growth not in wanted:
            raise ValueError("--plot draws the growth: add --only growth or --only all")
        check_plot(plot)
    if kymatio is not None and Section.peers in wanted:
        check_kymatio(kymatio)

    with progress_bars():
        squares = square_images(photos, size, images, seed)
    print(f"{len(squares)} images of {size}x{size} pixels, on one core unless said otherwise.\n")
    rows: Rows = []
    if Section.stages in wanted:
        rows += _stages(squares, seed)
    if Section.peers in wanted:
        rows += _peers(squares, seed, kymatio)
    if Section.search in wanted:
        rows += _search(squares, seed)
    if Section.kmeans in wanted:
        rows += _kmeans(squares, seed)
    if Section.growth in wanted:
        rows += _growth(lambda side: square_images(photos, side, N_GROWTH, seed), seed)
    if json_file is not None:
        with replacing(json_file) as temporary:
            temporary.write_text(json.dumps(rows, indent=1) + "\n")
        print(f"Rows: {json_file}")
    if plot is not None:
        plot_growth(rows, plot)
        print(f"Picture: {plot}")
    wrong = sum(row["beyond_ties"] for row in rows if row.get("method") == "midfea search")
    if wrong:
        warn(f"WRONG ANSWERS: {wrong} descriptors got other words than brute force finds, ties aside")
        raise typer.Exit(1)


def _stages(squares: list[Any], seed: int) -> Rows:
    from midfea.bench.stages import fit_classifier, time_stages
    from midfea.progress import progress_bars

    with progress_bars():
        rows = time_stages(fit_classifier(squares, seed), squares)
    print("Stages of one image:")
    print_table(
        ("stage", "ms", "paper, MATLAB"),
        [(row["stage"], f"{row['ms_per_image']:.2f}", str(row["paper"])) for row in rows],
    )
    return rows


def _peers(squares: list[Any], seed: int, kymatio: str | None) -> Rows:
    from midfea import MidFea
    from midfea.bench.peers import time_peers
    from midfea.progress import progress_bars

    with progress_bars():
        model = MidFea(preset="paper", max_side=None, random_state=seed).fit(squares)
        rows, missing = time_peers(model, squares, kymatio=kymatio)
    print("The whole feature, beside others:")
    print_table(
        ("method", "threads", "ms for each image", "times midfea"),
        [
            (
                row["method"],
                str(row["threads"]),
                f"{row['ms_per_image']:.2f}",
                f"{row['ratio']:.2f}",
            )
            for row in rows
        ],
    )
    last = rows[-1]
    print(f"{last['threads']} cores: {last['speedup']:.2f} times the throughput of one.")
    _tell(missing)
    return rows


def _search(squares: list[Any], seed: int) -> Rows:
    from midfea.bench.search import time_search
    from midfea.progress import progress_bars

    with progress_bars():
        rows, missing = time_search(squares, seed=seed)
    print("The nearest words of an image's descriptors, and where they are not brute force's:")
    print_table(
        ("method", "words", "k", "ms", "ratio", "compared", "different", "beyond ties"),
        [
            (
                row["method"],
                str(row["words"]),
                str(row["k"]),
                f"{row['ms_per_image']:.2f}",
                f"{row['ratio']:.2f}",
                f"{row['compared']:,}",
                f"{row['different']:,}",
                f"{row['beyond_ties']:,}",
            )
            for row in rows
        ],
    )
    _tell(missing)
    return rows


def _kmeans(squares: list[Any], seed: int) -> Rows:
    from midfea.bench.kmeans import time_kmeans
    from midfea.progress import progress_bars

    with progress_bars():
        rows = time_kmeans(squares, seed=seed)
    print(f"k-means, {rows[0]['clusters']} clusters of {rows[0]['points']:,} descriptors:")
    print_table(
        ("method", "rounds", "seconds", "times midfea", "inertia"),
        [
            (
                row["method"],
                str(row["max_iter"]),
                f"{row['seconds']:.2f}",
                f"{row['ratio']:.2f}",
                f"{row['inertia']:.1f}",
            )
            for row in rows
        ],
    )
    return rows


def _growth(squares: Callable[[int], list[Any]], seed: int) -> Rows:
    from midfea.bench.growth import time_growth
    from midfea.progress import progress_bars

    with progress_bars():
        rows = time_growth(squares, seed=seed)
    print(
        "Growth, the filters' without pairs; memory is the whole process's, before the work and at most:"
    )
    print_table(
        ("what grows", "value", "ms for each image", "MB before", "MB at most"),
        [
            (
                row["growth"],
                f"{row['value']:,}",
                f"{row['ms_per_image']:.2f}",
                "" if row["start_mb"] is None else f"{row['start_mb']:.0f}",
                "" if row["peak_mb"] is None else f"{row['peak_mb']:.0f}",
            )
            for row in rows
            if "value" in row
        ],
    )
    powers = [f"{row['growth']}^{row['exponent']:.2f}" for row in rows if "exponent" in row]
    print(f"Time grows as {', '.join(powers)}.")
    return rows


def _tell(missing: list[str]) -> None:
    for line in missing:
        warn(line)
