"""Things to recognise: Caltech-101 and Caltech-256."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from midfea.datasets.official import check_whole, count_rest, find_folder, read_grey
from midfea.pictures.resize import fit_within

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
    missing = []
    if len(paths) < expected:
        gaps = _gaps(paths, CALTECH256_CLASSES if clutter else CALTECH256_CLASSES - 1)
        missing = count_rest(gaps, len(paths), expected)
    check_whole(root, len(paths), expected, missing, complete)
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
    return Bunch(
        images=read_grey(paths, lambda index, image: fit_within(image, max_side)),
        target=target,
        target_names=sorted(set(target.tolist())),
        groups=None,
        paths=paths,
        missing=missing,
    )
