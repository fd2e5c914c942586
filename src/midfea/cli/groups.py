"""What keeps images together in validation: the option --groups, and what is said about it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from midfea.cli.common import warn, warn_listed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from sklearn.utils import Bunch

Groups = Annotated[
    str,
    typer.Option(
        metavar="HOW",
        help="Which images validation keeps together, such as those of one person. "
        "auto: series of photos, where there are any. folder: those of one folder inside the class "
        "folder. regex:PATTERN: those whose file names match alike, such as 'regex:^(.{5})'. "
        "FILE.csv:COLUMN: those of one entry in a table of file names. none: each image alone.",
    ),
]


def check_groups(given: str) -> None:
    """ValueError if --groups is none of its forms, before any image is read."""
    from midfea.datasets.groups import parse_groups

    if given not in ("auto", "none"):
        parse_groups(given)


def choose_groups(given: str, folder: Path, data: Bunch) -> NDArray[np.intp] | None:
    """The group of each image that --groups asks for; None: each image alone. Says what was found."""
    import numpy as np

    from midfea.datasets import read_groups, suggest_groups
    from midfea.pictures.likeness import fingerprints

    prints = fingerprints(data.images)
    _warn_near_duplicates(prints, folder, data)
    if given == "none":
        return None
    if given == "auto":
        found = suggest_groups(data.paths, prints)
        if found is None:
            return None
        warn(f"{found}. Validation keeps each series together; --groups none treats every image alone")
        groups = found.groups
    else:
        names = read_groups(given, folder, data.paths)
        groups = np.unique(names, return_inverse=True)[1]
        n_groups = len(np.unique(groups))
        if n_groups == len(groups):
            warn(f"--groups {given}: every image is in a group of its own, as with --groups none")
        else:
            warn(f"{len(groups)} images are in {n_groups} groups, which validation does not split")
    _warn_whole_classes(groups, data)
    return groups


def _warn_whole_classes(groups: NDArray[np.intp], data: Bunch) -> None:
    """Name the classes of one group: they cannot be held out."""
    import numpy as np

    whole = [
        repr(str(name))
        for name in np.unique(data.target)
        if len(np.unique(groups[data.target == name])) == 1
    ]
    if whole:
        warn_listed(f"{len(whole)} classes have one group only: nothing can be said of them", whole)


def _warn_near_duplicates(prints: NDArray[np.float32], folder: Path, data: Bunch) -> None:
    """Name images that show the same as others, in files that differ."""
    from midfea.pictures.likeness import near_duplicates

    first: dict[int, int] = {}
    across: list[str] = []
    within: list[str] = []
    for i, group in enumerate(near_duplicates(prints).tolist()):
        j = first.setdefault(group, i)
        if j != i and data.images[j].digest() != data.images[i].digest():
            pair = f"{data.paths[j].relative_to(folder)} and {data.paths[i].relative_to(folder)}"
            (within if data.target[i] == data.target[j] else across).append(pair)
    what = "near-duplicates of others (encoded again, resized or relit)"
    if across:
        warn_listed(
            f"{len(across)} images are {what} in another class, keep them in the right one", across
        )
    if within:
        warn_listed(f"{len(within)} images are {what}; validation keeps them together", within, shown=1)
