"""`midfea compare`: our methods and the baselines on one folder, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from midfea.cli.common import check_outputs, print_table, save_rows, warn, warn_nested, warn_skipped
from midfea.cli.groups import Groups, check_groups, choose_groups
from midfea.cli.mending import mending
from midfea.cli.options import Cache, Jobs, NoCache, RowsFile, Seed

if TYPE_CHECKING:
    from sklearn.utils import Bunch

    from midfea.provenance import Row
    from midfea.trials import Trials

# The names of midfea.bench.methods, here so that --help need not import it; a test compares them.
SYSTEMS = [
    "pixels",
    "hog",
    "sift",
    "src",
    "fddl",
    "lc-ksvd",
    "kspm",
    "scspm",
    "llc",
    "llc-1000",
    "svm-knn",
    "nbnn",
]
METHODS = (*SYSTEMS, "paper", "fast", "best")
DEFAULT = ("pixels", "hog", "sift", "paper", "fast")


def _complete(typed: str) -> list[str]:
    """For the shell: the names that go on as typed, after the last comma."""
    before, comma, last = typed.rpartition(",")
    return [before + comma + name for name in METHODS if name.startswith(last)]


def compare(
    words: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FOLDER", help="One folder of images for each class inside it.", show_default=False
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="The same, as an option.", show_default=False)
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            help="Only these, with commas or spaces between. Default: pixels, hog, sift, paper, fast.",
            show_default=False,
            autocompletion=_complete,
        ),
    ] = None,
    splits: Annotated[int, typer.Option(help="Random splits, the same for all methods.", min=1)] = 3,
    test_share: Annotated[
        float, typer.Option(help="Share of the images to test with.", min=0.05, max=0.95)
    ] = 0.5,
    json_file: RowsFile = None,
    groups: Groups = "auto",
    seed: Seed = 0,
    jobs: Jobs = None,
    cache: Cache = None,
    no_cache: NoCache = False,
) -> None:
    """Try several methods on your images: how accurate, how long to train, how fast.

    [bold]fast, paper, best[/bold]  the presets of midfea train
    [bold]pixels, hog[/bold]  pixels or histograms of oriented gradients, linear SVM
    [bold]sift, llc, llc-1000[/bold]  dense SIFT, LLC codes, a pyramid, linear SVM
    [bold]kspm, scspm[/bold]  other codes of dense SIFT
    [bold]src, fddl, lc-ksvd[/bold]  sparse sums of training images, learned dictionaries
    [bold]nbnn, svm-knn[/bold]  neighbours

    fddl takes minutes from 500 training images on, nbnn for a thousand test images.

    Every method learns from the same images and is tested on the same others; what
    is open is chosen on the training images. An interrupted run goes on.

    Examples:

        midfea compare photos
        midfea compare photos --methods fast best --splits 5 --json rows.json
        midfea compare --data photos --methods src kspm llc fast
    """
    from midfea.bench.methods import compare_methods
    from midfea.progress import progress_bars
    from midfea.trials import Trials, default_cache

    place, names = _folder_and_names(words or [], data, methods or [])
    check_outputs(json_file)
    check_groups(groups)
    chosen = _chosen(names)
    finished = Trials(None if no_cache else cache or default_cache())
    with progress_bars():
        photos = _read(place)
        with _going_on(finished):
            rows, failed = compare_methods(
                photos.images,
                photos.target,
                chosen,
                dataset=place.resolve().name,
                n_splits=splits,
                test_share=test_share,
                groups=choose_groups(groups, place, photos),
                seed=seed,
                n_jobs=jobs,
                finished=finished,
            )
    _print(rows, failed)
    n, n_test = len(photos.images), rows[0]["n_test"]
    print(f"{n - n_test} images to learn from, {n_test} to test, {splits} splits.")
    if finished.n_found:
        print(f"{finished.n_found} of {splits * len(chosen)} trainings are those of an earlier run.")
    save_rows(rows, json_file, range(seed, seed + splits))


def _folder_and_names(
    words: list[Path], data: Path | None, methods: list[str]
) -> tuple[Path, list[str]]:
    """The folder, and the names of methods: `--methods a b` leaves b among the words."""
    more = [str(word) for word in words if methods and str(word) in METHODS]
    given = [word for word in words if str(word) not in more] + ([data] if data else [])
    for word in given if methods and len(given) > 1 else ():
        if not word.exists():
            raise ValueError(f"{word}: no such folder or method; methods are {', '.join(METHODS)}")
    if len(given) != 1:
        raise typer.BadParameter("name one folder, such as: midfea compare photos", param_hint="FOLDER")
    return given[0], [name for part in (*methods, *more) for name in part.split(",")]


@contextmanager
def _going_on(finished: Trials) -> Iterator[None]:
    """What to do after Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt:
        if finished.folder is not None:
            warn(f"finished trainings are kept in {finished.folder}: run the same command to go on")
        raise


def _read(place: Path) -> Bunch:
    """The images of a folder; what is wrong with it is said."""
    from midfea.datasets import load_folder

    with mending(place):
        photos = load_folder(place)
    warn_nested(photos)
    warn_skipped(photos.skipped, len(photos.paths) + len(photos.skipped))
    return photos


def _chosen(given: list[str]) -> list[str]:
    """The methods asked for, each once; without any, the quick ones."""
    names = list(dict.fromkeys(given or DEFAULT))
    for name in names:
        if name not in METHODS:
            raise ValueError(f"no method {name!r}: choose from {', '.join(METHODS)}")
    return names


def _print(rows: list[Row], failed: dict[str, str]) -> None:
    """The table, and why methods are not in it."""
    for name, reason in failed.items():
        warn(f"{name} is left out: {reason}")
    if not rows:
        raise ValueError("none of the methods can learn from these images")
    print_table(
        ("method", "accuracy", "deviation", "mean recall", "seconds to train", "ms per image"),
        [
            (
                row["method"],
                f"{row['mean']:.1f} %",
                f"{row['std']:.1f}" if row["trials"] > 1 else "-",
                f"{row['mean_recall']:.1f} %",
                f"{row['seconds_to_train']:.1f}",
                f"{row['ms_per_image']:.1f}",
            )
            for row in rows
        ],
    )
