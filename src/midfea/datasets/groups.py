"""What keeps images together in validation, as a user says it: a folder, a pattern, a table."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath

FORMS = "auto, none, folder, 'regex:PATTERN' or FILE.csv:COLUMN"
N_NAMED = 3  # files that an error names

Rule = Callable[[Path, Sequence[PurePosixPath]], list[str]]  # the folder, CLASS/NAME of each image


def read_groups(given: str, folder: Path, paths: Sequence[Path]) -> list[str]:
    """The group of each image.

    Parameters
    ----------
    given : "folder": the folder inside the class folder that an image lies in. "regex:PATTERN": what the
        pattern's first group, or all of it, matches in the file's name; in CLASS/NAME if the pattern
        has a slash. "FILE.csv:COLUMN": a table with a column of file names, "file" or the first one;
        an image whose entry in COLUMN is empty is a group of its own.
    folder : the folder that holds the class folders
    paths : the images, inside this folder

    Raises
    ------
    ValueError names what cannot be used and the first images that have no group.
    """
    rule = parse_groups(given)
    names = [PurePosixPath(path.relative_to(folder).as_posix()) for path in paths]
    groups = rule(folder, names)
    if len(set(groups)) == 1:
        raise ValueError(
            f"--groups {given}: all images are in one group, {groups[0]!r}; validation needs two or more"
        )
    return groups


def parse_groups(given: str) -> Rule:
    """What gives images their groups; ValueError if it is no such thing, before any image is read."""
    if given == "folder":
        return _by_folder
    if given.startswith("regex:"):
        text = given.removeprefix("regex:")
        try:
            return partial(_by_pattern, re.compile(text))
        except re.error as error:
            raise ValueError(f"--groups {given}: not a regular expression ({error})") from None
    if re.search(r"\.[ct]sv:.", given, re.IGNORECASE):
        table, _, column = given.rpartition(":")
        return partial(_by_table, Path(table), _read_table(Path(table), column))
    raise ValueError(f"--groups {given}: not one of {FORMS}")


def _by_folder(folder: Path, names: Sequence[PurePosixPath]) -> list[str]:
    outside = [name for name in names if len(name.parts) < 3]
    _refuse(outside, "--groups folder: ", "lie directly in their class folder, not in one inside it")
    return ["/".join(name.parts[1:-1]) for name in names]


def _by_pattern(pattern: re.Pattern[str], folder: Path, names: Sequence[PurePosixPath]) -> list[str]:
    whole = "/" in pattern.pattern
    matches = [pattern.search(str(name) if whole else name.name) for name in names]
    unmatched = [name for name, match in zip(names, matches, strict=True) if match is None]
    _refuse(unmatched, f"--groups regex:{pattern.pattern}: ", "do not match")
    return [match[1 if pattern.groups else 0] or "" for match in matches if match is not None]


def _by_table(
    table: Path, entries: Mapping[str, str], folder: Path, names: Sequence[PurePosixPath]
) -> list[str]:
    places = [PurePosixPath(place.as_posix()) for place in (folder, folder.resolve())]
    found: list[str | None] = []
    for name in names:
        known = [str(name), name.name, *(str(place / name) for place in places)]
        found.append(next((entries[each] for each in known if each in entries), None))
    missing = [name for name, group in zip(names, found, strict=True) if group is None]
    _refuse(missing, f"{table}: ", "are not in the table")
    bare = Counter(name.name for name in names if name.name in entries and str(name) not in entries)
    twice = [name for name, count in bare.items() if count > 1]
    if twice:
        raise ValueError(
            f"{table}: several images are named {twice[0]!r}: write CLASS/{twice[0]} in the table"
        )
    # A tab cannot be in a table's entry: such a group is of one image.
    return [group or f"\t{name}" for name, group in zip(names, found, strict=True)]


def _read_table(table: Path, column: str) -> dict[str, str]:
    """Names of files and their entries in a column."""
    try:
        with table.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
            delimiter = "\t" if table.suffix.lower() == ".tsv" else ","
            rows = list(csv.reader(file, delimiter=delimiter))
    except FileNotFoundError:
        raise ValueError(f"{table}: no such file; --groups takes {FORMS}") from None
    except csv.Error as error:
        raise ValueError(f"{table}: not a CSV file ({error})") from None
    header = [cell.strip() for cell in rows[0]] if rows else []
    if column not in header:
        has = ", ".join(header) or "no columns"
        raise ValueError(f"{table}: no column {column!r}; it has {has}")
    place, files = header.index(column), header.index("file") if "file" in header else 0
    seen: dict[str, str] = {}
    for row in rows[1:]:
        if len(row) > files:
            name = PurePosixPath(row[files].strip().replace("\\", "/")).as_posix()
            entry = row[place].strip() if len(row) > place else ""
            if seen.setdefault(name, entry) != entry:
                raise ValueError(f"{table}: {name} is there twice, as {seen[name]!r} and as {entry!r}")
    return seen


def _refuse(names: Sequence[PurePosixPath], what: str, why: str) -> None:
    """ValueError that counts these images and names the first, if there are any."""
    if names:
        shown = ", ".join(str(name) for name in names[:N_NAMED])
        more = ", ..." if len(names) > N_NAMED else ""
        raise ValueError(f"{what}{len(names)} images {why}: {shown}{more}")
