"""What lies in a folder that is no folder of class folders, and which folder to take in its place."""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from midfea.files import did_you_mean
from midfea.pictures.formats import ending_of, has_image_ending, has_other_picture_ending

SUBSETS = {  # of images that somebody divided, by the usual names of their folders
    "train": "train",
    "training": "train",
    "test": "test",
    "testing": "test",
    "val": "val",
    "valid": "val",
    "validation": "val",
}
EXPECTED = "Expected one folder for each class with images in it, such as"
MAKE_FOLDERS = "Make a folder for each class and move its images there, such as"
TABLES = (".csv", ".tsv")
MAX_TABLE_BYTES = 10_000_000  # that are searched for the names of images
N_SOUGHT_IN_TABLES = 50  # images
MAX_SHOWN = 5
MIN_IMAGES_PER_PREFIX = 2
NUMBERED = re.compile(r"(?P<prefix>.*?[^\W\d_])(?P<link>[ _.-]*)\(?\d+\)?")  # such as cat_01, dog.12
# How cameras, telephones and programs begin their names.
CAMERA_PREFIXES = frozenset({
    "img", "dsc", "dscn", "dscf", "dsci", "p", "pxl", "mvimg", "gopr", "dji",
    "image", "photo", "picture", "pic", "screenshot", "scan", "frame",
})  # fmt: skip


class WrongFolder(ValueError):
    """A folder that cannot be used as it is.

    Attributes
    ----------
    found : what lies there and what to do, in words
    shell : commands to type first, or ""
    train, test : the folders to learn from and to test with; None where there is none
    unlabelled : a folder of images without classes, to predict; or None
    """

    def __init__(
        self,
        found: str,
        train: Path | None = None,
        test: Path | None = None,
        unlabelled: Path | None = None,
        shell: str = "",
    ) -> None:
        self.found, self.shell = found, shell
        self.train, self.test, self.unlabelled = train, test, unlabelled
        code = "" if train is None else f"load_folder({str(train)!r})"
        steps = " Type: ".join(filter(None, [shell, "" if shell else code]))
        super().__init__(f"{found} Type: {steps}" if steps else found)


@dataclass(frozen=True)
class Tree:
    """The names in a folder, and in those inside it; hidden ones and links to folders left out."""

    path: Path
    images: tuple[str, ...] = ()
    pictures: tuple[str, ...] = ()  # in formats that are not read
    others: tuple[str, ...] = ()
    folders: tuple[Tree, ...] = ()
    problem: str | None = None  # why it cannot be listed

    @property
    def n_images(self) -> int:
        """At any depth."""
        return len(self.images) + sum(folder.n_images for folder in self.folders)

    @property
    def classes(self) -> list[Tree]:
        """The folders in it that hold images, at any depth."""
        return [folder for folder in self.folders if folder.n_images]

    def walk(self) -> Iterable[Tree]:
        """This folder and all inside it."""
        return chain([self], *(folder.walk() for folder in self.folders))


class Nested(NamedTuple):
    """A class folder whose images lie in folders inside it, with the number of images in each."""

    path: Path
    inside: dict[str, int]


def survey(folder: Path, follow_links: bool = False) -> Tree:
    """What lies in a folder, by names alone.

    Links to folders are followed, if at all, in this one only: no further ones inside.
    """
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        return Tree(folder, problem=error.strerror)
    shown = [entry for entry in entries if not entry.name.startswith(".")]
    files = [entry.name for entry in shown if not entry.is_dir()]
    images = tuple(name for name in files if has_image_ending(name))
    pictures = tuple(name for name in files if has_other_picture_ending(name))
    others = tuple(name for name in files if name not in {*images, *pictures})
    folders = [e for e in shown if e.is_dir() and (follow_links or not e.is_symlink())]
    return Tree(folder, images, pictures, others, tuple(survey(folder / e.name) for e in folders))


def check_layout(folder: Path) -> Tree:
    """What lies in a folder of class folders; `WrongFolder` if it is none."""
    if not os.path.isdir(folder):
        raise _no_folder(folder)
    tree = survey(folder, follow_links=True)
    if not tree.classes:
        raise _without_classes(tree)
    divided = _divided(tree)
    if divided is not None:
        raise divided
    return tree


def one_class(tree: Tree, names: Sequence[str]) -> WrongFolder:
    """For a folder with usable images of one class, or none; the classes may lie deeper."""
    needed = "A classifier needs two folders of images or more, one for each class"
    if not names:
        return WrongFolder(f"{tree.path}: no usable image. {needed}")
    (name,) = names
    found = f"{tree.path}: one class only, {name!r}"
    only = next(folder for folder in tree.folders if folder.path.name == name)
    if not only.images and len(only.classes) > 1:
        inside = _listed((folder.path.name for folder in only.classes), "and")
        found += f", which holds the folders {inside}: these look like the classes."
        return WrongFolder(found, only.path)
    table = _table_in(tree.path, only.images) or _table_in(only.path, only.images)
    if table:
        return WrongFolder(f"{found}. {_no_tables(table)}{MAKE_FOLDERS} {tree.path / 'cats' / '1.jpg'}")
    return WrongFolder(f"{found}. {needed}")


def nested_classes(tree: Tree) -> list[Nested]:
    """The classes whose images lie in more folders than one."""
    found = []
    for folder in tree.classes:
        inside = {each.path.name: each.n_images for each in folder.classes}
        if inside:
            found.append(Nested(folder.path, inside))
    return found


def pictures_not_read(trees: Iterable[Tree]) -> str:
    """ "12 .heic, 3 .cr2": pictures in formats that midfea does not read; "" if there are none."""
    endings = Counter(ending_of(name) for tree in trees for name in tree.pictures)
    return ", ".join(f"{count} {ending}" for ending, count in endings.most_common())


# -- the cases --------------------------------------------------------------------------------------


def _no_folder(path: Path) -> WrongFolder:
    if not os.path.exists(path):
        near = did_you_mean(path, os.path.isdir)
        hint = f". Did you mean {near}?" if near else ""
        return WrongFolder(f"{path}: no such folder{hint}", near, near)
    if path.suffix.lower() == ".zip":
        target = path.with_suffix("")
        shell = f"unzip {shlex.quote(str(path))} -d {shlex.quote(str(target))}"
        found = f"{path}: a file, not a folder. Unpack it first."
        return WrongFolder(found, target, target, shell=shell)
    if not has_image_ending(path.name):
        return WrongFolder(f"{path}: a file, not a folder. {EXPECTED} photos/cats/1.jpg")
    found = f"{path}: an image file, not a folder"
    for root in (path.parent, above(path.parent)):
        if len(_siblings(root)) > 1:
            return WrongFolder(f"{found}. Give the folder that holds the class folders.", root, root)
    return WrongFolder(f"{found}. {EXPECTED} photos/cats/{path.name}")


def _without_classes(tree: Tree) -> WrongFolder:
    if tree.images:
        return _images_without_classes(tree)
    example = f"{EXPECTED} {tree.path / 'cats' / '1.jpg'}"
    start = f"{tree.path}: no images found"
    unread = pictures_not_read(tree.walk())
    if unread:
        first = next(each for each in tree.walk() if each.pictures)
        _, ending = os.path.splitext(first.pictures[0])
        shell = f"magick mogrify -format jpg {shlex.quote(str(first.path))}/*{ending}"
        return WrongFolder(
            f"{start} that midfea reads, but pictures in other formats: {unread}. Save them as JPEG or "
            "PNG, with ImageMagick for example, folder by folder.",
            shell=shell,
        )
    closed = [f"{each.path} cannot be read ({each.problem})" for each in tree.walk() if each.problem]
    if closed:
        return WrongFolder(f"{start}: {_listed(closed)}")
    others = Counter(ending_of(name) or "no ending" for each in tree.walk() for name in each.others)
    if others:
        listed = _listed(f"{count} {ending}" for ending, count in others.most_common())
        return WrongFolder(f"{start} among its files ({listed}). {example}")
    if tree.folders:
        names = _listed(folder.path.name for folder in tree.folders)
        return WrongFolder(f"{start}: its folders are empty ({names}). {example}")
    return WrongFolder(f"{start}: the folder is empty. {example}")


def _images_without_classes(tree: Tree) -> WrongFolder:
    n_images = len(tree.images)
    found = f"{tree.path}: {n_images} image{'s' * (n_images > 1)}, but no class folders."
    prefixes, root = _prefixes(tree.images), above(tree.path)
    if prefixes:
        begin = _listed((f"{name!r} ({count})" for (name, _), count in prefixes.items()), "and")
        advice = f"Their names begin with {begin}: move them into folders of these names."
        shell = _move_by_prefix(tree.path, prefixes)
        return WrongFolder(f"{found} {advice}", tree.path, tree.path, shell=shell)
    beside = {name: n for name, n in _siblings(root).items() if name != tree.path.resolve().name}
    table = _table_in(tree.path, tree.images)
    if not table and beside:
        listed = _listed((f"{name!r} ({n})" for name, n in beside.items()), "and")
        advice = f"It looks like one class, beside {listed}: give the folder of all classes."
        return WrongFolder(f"{found} {advice}", root, root)
    table, example = table or _table_in(root, tree.images), tree.path / "cats" / tree.images[0]
    return WrongFolder(f"{found} {_no_tables(table)}{MAKE_FOLDERS} {example}")


def _divided(tree: Tree) -> WrongFolder | None:
    """For a folder of training and test images, in folders that hold the classes."""
    subsets = {SUBSETS[f.path.name.lower()]: f for f in tree.classes if f.path.name.lower() in SUBSETS}
    train = subsets.get("train")
    if train is None or len(subsets) < 2 or train.images or len(train.classes) < 2:
        return None
    others = [subsets[name] for name in ("test", "val") if name in subsets]
    other = next((part for part in others if part.classes), others[0])
    names = _listed((repr(part.path.name) for part in subsets.values()), "and")
    classes = _listed(folder.path.name for folder in train.classes)
    found = f"{tree.path}: {names} are parts of one set, not classes; the classes are {classes}."
    start = f"{found} Train on {train.path}"
    if other.classes:
        return WrongFolder(f"{start} and evaluate on {other.path}.", train.path, other.path)
    found = f"{start}; {other.path} has no class folders: it can be predicted, but not evaluated."
    return WrongFolder(found, train.path, unlabelled=other.path)


# -- what they need ---------------------------------------------------------------------------------


def above(folder: Path) -> Path:
    """The folder around it, written like it."""
    return folder.parent if folder.name and folder.name != ".." else folder / ".."


def _siblings(root: Path) -> dict[str, int]:
    """The folders in it that hold images themselves, with their numbers."""
    counts = {}
    for entry in _entries(root):
        if entry.is_dir() and not entry.name.startswith("."):
            counts[entry.name] = sum(has_image_ending(file.name) for file in _entries(root / entry.name))
    return {name: count for name, count in sorted(counts.items()) if count}


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        return list(os.scandir(folder))
    except OSError:
        return []


def _prefixes(names: Sequence[str]) -> dict[tuple[str, str], int]:
    """How names such as cat_01.jpg begin, with what follows, if all do and it says the class."""
    matches = [NUMBERED.fullmatch(os.path.splitext(name)[0]) for name in names]
    found = Counter((m["prefix"], m["link"]) for m in matches if m)
    words = {prefix.lower() for prefix, _ in found}
    if len(words) < 2 or len(words) < len(found) or None in matches or words & CAMERA_PREFIXES:
        return {}
    return dict(sorted(found.items())) if min(found.values()) >= MIN_IMAGES_PER_PREFIX else {}


def _move_by_prefix(root: Path, prefixes: Iterable[tuple[str, str]]) -> str:
    def quoted(name: str) -> str:
        return shlex.quote(str(root / name))

    names = [prefix for prefix, _ in prefixes]
    moves = [
        f"mv {quoted(prefix + link)}{'*' if link else '[0-9(]*'} {quoted(prefix)}"
        for prefix, link in prefixes
    ]
    return " && ".join([f"mkdir {' '.join(map(quoted, names))}", *moves])


def _table_in(folder: Path, images: Sequence[str]) -> Path | None:
    """A table in a folder that names most of the images."""
    stems = {os.path.splitext(name)[0] for name in images[:N_SOUGHT_IN_TABLES]}
    for entry in _entries(folder):
        if ending_of(entry.name) in TABLES and entry.is_file():
            with open(entry.path, "rb") as file:
                text = file.read(MAX_TABLE_BYTES).decode(errors="replace")
            cells = {os.path.splitext(cell)[0] for cell in re.split(r"[\s,;/\\\"]+", text)}
            if 2 * len(stems & cells) > len(stems):
                return folder / entry.name
    return None


def _no_tables(table: Path | None) -> str:
    if table is None:
        return ""
    return f"{table} names them, but midfea takes labels from folders, not from tables. "


def _listed(names: Iterable[str], last: str = "") -> str:
    """ "a, b and c"; at most so many."""
    shown = list(names)
    if len(shown) > MAX_SHOWN:
        return f"{', '.join(shown[:MAX_SHOWN])} and {len(shown) - MAX_SHOWN} more"
    if last and len(shown) > 1:
        return f"{', '.join(shown[:-1])} {last} {shown[-1]}"
    return ", ".join(shown)
