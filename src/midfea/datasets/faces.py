"""Faces to recognise: AR and Extended Yale B."""

from __future__ import annotations

import os
import re

import numpy as np
from sklearn.utils import Bunch

from midfea.datasets.official import check_whole, count_rest, find_folder, read_grey
from midfea.pictures.resize import Grey, resize

AR_VIEWS = (*range(1, 8), *range(14, 21))  # the others show sun glasses and scarves
_AR_NAME = re.compile(r"([MW]-\d{3})-(\d{2})\.(png|bmp|pgm|ppm|jpe?g|tiff?)", re.IGNORECASE)

YALE_PEOPLE = tuple(f"yaleB{number:02d}" for number in range(1, 40) if number != 14)  # there is no 14
YALE_IMAGES = 2414
YALE_FEWEST = 59  # images of a person, of 64: some were spoilt when the set was made
_YALE_NAME = re.compile(r"yaleB\d{2}_P\d{2}A[+-]\d{3}E[+-]\d{2}\.pgm")  # so not ..._Ambient.pgm


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
    found = {}
    for path in sorted(root.iterdir()):
        name = _AR_NAME.fullmatch(path.name)
        if name and int(name[2]) in AR_VIEWS:
            found[name[1].upper(), int(name[2])] = path
    expected = [
        (f"{sex}-{number:03d}", view) for sex in "MW" for number in range(1, 51) for view in AR_VIEWS
    ]
    missing = [f"{person}-{view:02d}" for person, view in expected if (person, view) not in found]
    listed = [key for key in expected if key in found]
    check_whole(root, len(listed), len(expected), missing, complete)
    paths = [found[key] for key in listed]
    person = np.array([name for name, _ in listed], dtype=str)
    view = np.array([number for _, number in listed], dtype=int)
    return Bunch(
        images=read_grey(paths, lambda index, image: image),
        target=person,
        target_names=sorted(set(person.tolist())),
        groups=person,
        paths=paths,
        missing=missing,
        person=person,
        sex=np.array(["man" if name.startswith("M") else "woman" for name in person], dtype=str),
        view=view,
        session=np.where(view <= 7, 1, 2),
    )


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
    missing = count_rest(few, len(paths), YALE_IMAGES)
    check_whole(root, len(paths), YALE_IMAGES, missing, complete)

    def resized(index: int, image: Grey) -> Grey:
        return resize(image, size)

    return Bunch(
        images=read_grey(paths, resized),
        target=target,
        target_names=sorted(set(target.tolist())),
        groups=target,
        paths=paths,
        missing=missing + [f"{path.parent.name}/{path.name}" for path in spoilt],
    )
