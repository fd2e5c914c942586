"""The published sets of labelled images: AR, Extended Yale B, Caltech-101 and Caltech-256.

At the end stands what all loaders of published sets share: find the folder, see that it is whole, read
the images.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from midfea.datasets.folder import read_all
from midfea.pictures.picture import to_grey
from midfea.pictures.reading import ImageError, read_image
from midfea.pictures.resize import Grey, fit_within, resize

AR_VIEWS = (*range(1, 8), *range(14, 21))  # the others show sun glasses and scarves
_AR_NAME = re.compile(r"[MW]-\d{3}-\d{2}\.(png|bmp|pgm|ppm|jpe?g|tiff?)", re.IGNORECASE)

YALE_PEOPLE = tuple(f"yaleB{number:02d}" for number in range(1, 40) if number != 14)  # there is no 14
YALE_IMAGES = 2414
YALE_FEWEST = 59  # images of a person, of 64: some were spoilt when the set was made
_YALE_NAME = re.compile(r"yaleB\d{2}_P\d{2}A[+-]\d{3}E[+-]\d{2}\.pgm")  # so not ..._Ambient.pgm

# Images of each class, numbered from 1 without gaps: so every absent file can be named.
_COUNTS = """
    BACKGROUND_Google=467 Faces=435 Faces_easy=435 Leopards=200 Motorbikes=798 accordion=55
    airplanes=800 anchor=42 ant=42 barrel=47 bass=54 beaver=46 binocular=33 bonsai=128 brain=98
    brontosaurus=43 buddha=85 butterfly=91 camera=50 cannon=43 car_side=123 ceiling_fan=47
    cellphone=59 chair=62 chandelier=107 cougar_body=47 cougar_face=69 crab=73 crayfish=70
    crocodile=50 crocodile_head=51 cup=57 dalmatian=67 dollar_bill=52 dolphin=65 dragonfly=68
    electric_guitar=75 elephant=64 emu=53 euphonium=64 ewer=85 ferry=67 flamingo=67 flamingo_head=45
    garfield=34 gerenuk=34 gramophone=51 grand_piano=99 hawksbill=100 headphone=42 hedgehog=54
    helicopter=88 ibis=80 inline_skate=31 joshua_tree=64 kangaroo=86 ketch=114 lamp=61 laptop=81
    llama=78 lobster=41 lotus=66 mandolin=43 mayfly=40 menorah=87 metronome=32 minaret=76
    nautilus=55 octopus=35 okapi=39 pagoda=47 panda=38 pigeon=45 pizza=53 platypus=34 pyramid=57
    revolver=82 rhino=59 rooster=49 saxophone=40 schooner=63 scissors=39 scorpion=84 sea_horse=57
    snoopy=35 soccer_ball=64 stapler=45 starfish=86 stegosaurus=59 stop_sign=64 strawberry=35
    sunflower=85 tick=49 trilobite=86 umbrella=75 watch=239 water_lilly=37 wheelchair=59 wild_cat=34
    windsor_chair=56 wrench=39 yin_yang=60
"""
CALTECH101_COUNTS = {name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", _COUNTS)}
CALTECH256_CLASSES = 257  # the last one is the clutter
CALTECH256_IMAGES = 30607
CALTECH256_CLUTTER = 827

ABSENT_SHARE = 0.01  # a set that lacks more than this was not copied whole
FIRST_NAMES = 3  # so many absent files are named in an error, the others are counted


class DatasetError(ValueError):
    """A set that cannot be used; the message names the folder or file and says what to do."""


def load_ar(folder: str | os.PathLike[str], *, complete: bool = True) -> Bunch:
    """The AR faces without sun glasses and scarves: 50 men and 50 women, 14 views of each.

    Parameters
    ----------
    folder : holds M-001-01.png and so on (sex, person, view), or a folder `ar` with them
    complete : refuse a set that lacks more than one file in a hundred

    Returns
    -------
    Bunch with images, target (the person, such as "M-001"), target_names, groups (the person), paths,
    missing (names of absent images), person, sex ("man" or "woman"), view (1 to 7 and 14 to 20),
    session (1 or 2).
    """
    root = find_folder(folder, ["ar"], ["[MmWw]-???-??.*"], "AR faces (M-001-01.png, ...)")
    found = {p.stem.upper(): p for p in sorted(root.iterdir()) if _AR_NAME.fullmatch(p.name)}
    people = [f"{sex}-{number:03d}" for sex in "MW" for number in range(1, 51)]
    expected = [f"{person}-{view:02d}" for person in people for view in AR_VIEWS]
    listed = [name for name in expected if name in found]
    missing = [name for name in expected if name not in found]
    check_whole(root, len(listed), len(expected), missing, complete)
    paths = [found[name] for name in listed]
    person = np.array([name[:5] for name in listed], dtype=str)
    view = np.array([int(name[6:]) for name in listed], dtype=int)
    sex = np.array(["man" if name.startswith("M") else "woman" for name in person], dtype=str)
    bunch = _bunch(paths, person, person, missing, lambda index, image: image)
    bunch.update(person=person, sex=sex, view=view, session=np.where(view <= 7, 1, 2))
    return bunch


def load_yale_b(
    folder: str | os.PathLike[str], size: tuple[int, int] = (96, 84), *, complete: bool = True
) -> Bunch:
    """The Extended Yale B faces, cropped: 2,414 images of 38 people in 64 lights.

    Parameters
    ----------
    folder : holds yaleB01/yaleB01_P00A+000E+00.pgm and so on, or is the folder above that one
        (CroppedYale) or above that (extended_yale_b). The images of ambient light are left out.
    size : height and width to which the images are resized, without rounding
    complete : refuse a set that lacks more than one file in a hundred

    Returns
    -------
    Bunch with images (float32, 0 to 255), target (the person, such as "yaleB01"), target_names,
    groups (the person), paths, missing: people without a folder or with fewer than 59 images, how
    many images are absent in all, and the files that the set's makers marked as spoilt (.bad).
    """
    places = ["CroppedYale", "extended_yale_b", "extended_yale_b/CroppedYale"]
    what = "Extended Yale B faces (yaleB01/yaleB01_P00A+000E+00.pgm, ...)"
    root = find_folder(folder, places, ["yaleB[0-9][0-9]/*.pgm"], what)
    people = [root / name for name in YALE_PEOPLE if (root / name).is_dir()]
    paths = [
        path for person in people for path in sorted(person.iterdir()) if _YALE_NAME.match(path.name)
    ]
    spoilt = [path for path in paths if path.suffix == ".bad"]
    paths = [path for path in paths if path.suffix == ".pgm"]
    target = np.array([path.parent.name for path in paths], dtype=str)
    counts = {name: int(np.sum(target == name)) for name in YALE_PEOPLE}
    few = [
        f"{name} ({count} images, expected {YALE_FEWEST} to 64)"
        for name, count in counts.items()
        if count < YALE_FEWEST
    ]
    missing = check_whole(root, len(paths), YALE_IMAGES, few, complete)
    missing += [f"{path.parent.name}/{path.name}" for path in spoilt]
    return _bunch(paths, target, target, missing, lambda index, image: resize(image, size))


def load_caltech101(
    folder: str | os.PathLike[str],
    *,
    max_side: int | None = 150,
    background: bool = True,
    complete: bool = True,
) -> Bunch:
    """Caltech-101: 9,144 images in 102 classes, one of them the background (467 images).

    Parameters
    ----------
    folder : holds accordion/image_0001.jpg and so on, or is the folder above that one
        (101_ObjectCategories) or above that (caltech101)
    max_side : larger images are reduced while reading, as in the paper's Section 4.4
    background : keep the class BACKGROUND_Google
    complete : refuse a set that lacks more than one file in a hundred

    Returns
    -------
    Bunch with images, target (the class), target_names, groups (None), paths, missing (absent files).
    """
    places = ["101_ObjectCategories", "caltech101", "caltech101/101_ObjectCategories"]
    what = "Caltech-101 (accordion/image_0001.jpg, ...)"
    root = find_folder(folder, places, ["*/image_*.jpg"], what)
    there = {f"{path.parent.name}/{path.name}" for path in root.glob("*/image_*.jpg")}
    names = [name for name in CALTECH101_COUNTS if background or name != "BACKGROUND_Google"]
    expected = [
        f"{name}/image_{number:04d}.jpg"
        for name in names
        for number in range(1, CALTECH101_COUNTS[name] + 1)
    ]
    paths = [root / name for name in expected if name in there]
    missing = [name for name in expected if name not in there]
    check_whole(root, len(paths), len(expected), missing, complete)
    return _objects(paths, missing, max_side)


def load_caltech256(
    folder: str | os.PathLike[str],
    *,
    max_side: int | None = 150,
    clutter: bool = False,
    complete: bool = True,
) -> Bunch:
    """Caltech-256: 29,780 images in 256 classes, and 827 images of clutter.

    Parameters
    ----------
    folder : holds 001.ak47/001_0001.jpg and so on, or a folder 256_ObjectCategories with them.
        The files and folders that were left in the published set by mistake (RENAME2, greg) are
        passed over.
    max_side : larger images are reduced while reading
    clutter : keep the class 257.clutter
    complete : refuse a set that lacks more than one file in a hundred

    Returns
    -------
    Bunch with images, target (the class, such as "001.ak47"), target_names, groups (None), paths,
    missing: classes without a folder, gaps in the numbers of a class's images, and how many images
    are absent in all where they cannot all be named.
    """
    places = ["256_ObjectCategories", "caltech256", "caltech256/256_ObjectCategories"]
    what = "Caltech-256 (001.ak47/001_0001.jpg, ...)"
    pattern = "[0-9][0-9][0-9].*/[0-9][0-9][0-9]_[0-9][0-9][0-9][0-9].jpg"
    root = find_folder(folder, places, [pattern], what)
    paths = [p for p in sorted(root.glob(pattern)) if clutter or not p.parent.name.startswith("257.")]
    expected = CALTECH256_IMAGES - (0 if clutter else CALTECH256_CLUTTER)
    n_classes = CALTECH256_CLASSES if clutter else CALTECH256_CLASSES - 1
    gaps = _gaps(paths, n_classes) if len(paths) < expected else []
    missing = check_whole(root, len(paths), expected, gaps, complete)
    return _objects(paths, missing, max_side)


def _gaps(paths: Sequence[Path], n_classes: int) -> list[str]:
    """Classes without images, and images whose number is left out in their class."""
    numbers: dict[str, set[int]] = {}
    for path in paths:
        numbers.setdefault(path.parent.name, set()).add(int(path.stem[4:]))
    present = {int(name[:3]) for name in numbers}
    gaps = [f"class {number:03d}" for number in range(1, n_classes + 1) if number not in present]
    for name, known in sorted(numbers.items()):
        gaps += [
            f"{name}/{name[:3]}_{number:04d}.jpg"
            for number in range(1, max(known) + 1)
            if number not in known
        ]
    return gaps


def _objects(paths: list[Path], missing: list[str], max_side: int | None) -> Bunch:
    target = np.array([path.parent.name for path in paths], dtype=str)
    return _bunch(paths, target, None, missing, lambda index, image: fit_within(image, max_side))


def _bunch(
    paths: list[Path],
    target: NDArray[Any],
    groups: NDArray[Any] | None,
    missing: list[str],
    change: Callable[[int, Grey], Grey],
) -> Bunch:
    return Bunch(
        images=read_grey(paths, change),
        target=target,
        target_names=sorted(set(target.tolist())),
        groups=groups,
        paths=paths,
        missing=missing,
    )


# -- for all published sets --------------------------------------------------------------------------


def find_folder(
    folder: str | os.PathLike[str], places: Sequence[str], files: Sequence[str], what: str
) -> Path:
    """The folder of the set: the one given or the first of `places` inside it where all `files` match.

    Parameters
    ----------
    folder : what the user gave
    places : folders inside it where the set may lie
    files : glob patterns of files that show that the set is there
    what : the set's name and an example of its files, for the error
    """
    given = Path(folder)
    if not given.is_dir():
        raise DatasetError(f"{given}: no such folder; give the folder that holds {what}")
    for root in (given, *(given / place for place in places)):
        if root.is_dir() and all(next(root.glob(pattern), None) for pattern in files):
            return root
    raise DatasetError(
        f"{given}: {what} not found, neither there nor in its folders {', '.join(places)}; "
        f"give the folder that holds the set"
    )


def check_whole(root: Path, found: int, expected: int, missing: list[str], complete: bool) -> list[str]:
    """Refuse a half-copied set: a result from a part of it could not be compared with anything.

    Where `complete` is False a part will do, but not nothing. Returns `missing`, and the number of
    absent images where their names cannot all be known.
    """
    if found == 0:
        raise DatasetError(f"{root}: none of the set's {expected:,} images is there; copy the set again")
    absent = expected - found
    if absent > len(missing):
        missing = [*missing, f"in all {absent:,} of {expected:,} images"]
    if complete and absent > ABSENT_SHARE * expected:
        first = ", ".join(missing[:FIRST_NAMES]) + (", ..." if len(missing) > FIRST_NAMES else "")
        raise DatasetError(
            f"{root}: half-copied, {absent:,} of {expected:,} files are absent ({first}); "
            f"copy the set again, or say complete=False to use what is there"
        )
    return missing


def read_grey(paths: Sequence[Path], change: Callable[[int, Grey], Grey]) -> list[Grey]:
    """Grey images after `change(index, image)`, which makes them small while the next are read."""

    def read(index: int) -> Grey:
        try:
            return change(index, to_grey(read_image(paths[index])))
        except ImageError as error:
            raise DatasetError(f"{error}; copy it again") from None

    return read_all(read, range(len(paths)))
