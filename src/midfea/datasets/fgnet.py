"""FG-NET: photographs of people at many ages, each with 68 landmarks, brought into one frame."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter, map_coordinates
from scipy.spatial import Delaunay
from sklearn.utils import Bunch

from midfea.datasets.official import DatasetError, check_whole, find_folder, read_grey
from midfea.pictures.resize import Grey, fit_within

PHOTOS, PEOPLE, POINTS = 1002, 82, 68
PUPILS, MOUTH = (31, 36), slice(48, 66)
# Where the pupils and the middle of the mouth fall, x + iy in shares of the side. The pupils are as
# far above the mouth as in the average face; brows and chin stay inside for 99 of 100 faces.
PLACES = np.array([0.31 + 0.22j, 0.69 + 0.22j, 0.5 + 0.625j])
OUTSIDE = 128  # mid grey around a warped face: its rim is a weaker edge than with black

_NAME = re.compile(r"(\d{3})a(\d{2})[a-z]?")  # of a file in small letters: person, age, which photo
Points = NDArray[np.complex128]  # each x + iy, so that a turn and a scale are one multiplication


def load_fgnet(
    folder: str | os.PathLike[str],
    *,
    faces: Literal["aligned", "warped", "photos"] = "aligned",
    size: int = 60,
    complete: bool = True,
) -> Bunch:
    """The FG-NET faces: 1,002 photographs of 82 people aged 0 to 69.

    Parameters
    ----------
    folder : holds images/001A02.JPG (person 1, 2 years old) and points/001a02.pts and so on, or a
        folder `fgnet` with them. Names may be in capitals or small letters.
    faces : "aligned" turns, scales and shifts each photo so that pupils and mouth fall on fixed
        places, and keeps the face from brows to chin; beyond a photo's edge its last pixels go on.
        "warped" moves all 68 landmarks onto the mean shape of all faces, as an active appearance
        model does; around the face all is mid grey. Neither looks at the ages. "photos" are the whole
        photographs.
    size : height and width of the images; of whole photographs the longer side, at most
    complete : refuse a set that lacks more than one photo in a hundred

    Returns
    -------
    Bunch with images, target (age in years), target_names, groups (the person's number), paths,
    missing (the absent one of a photo and its points, people without any photo, and how many photos
    are absent in all where they cannot all be named), names (such as "001A02"), landmarks
    (n, 68, 2): x and y in the returned images.
    """
    if faces not in ("aligned", "warped", "photos"):
        raise ValueError(f'faces must be "aligned", "warped" or "photos", got {faces!r}')
    if not isinstance(size, int | np.integer) or size < 8:
        raise ValueError(f"size must be an integer of at least 8, got {size!r}")
    what = "FG-NET faces (images/001A02.JPG and points/001a02.pts, ...)"
    root = find_folder(folder, ["fgnet"], ["images/*", "points/*"], what)
    photos = _by_name(root / "images", (".jpg", ".jpeg", ".png"))
    points = _by_name(root / "points", (".pts",))
    names = sorted(photos.keys() & points.keys())
    people = {int(name[:3]) for name in photos.keys() | points.keys()}
    missing = [f"points/{name}.pts" for name in sorted(photos.keys() - points.keys())]
    alone = sorted(points.keys() - photos.keys())
    missing += [f"images/{name.replace('a', 'A', 1)}.JPG" for name in alone]
    missing += [f"person {number:03d}" for number in range(1, PEOPLE + 1) if number not in people]
    missing = check_whole(root, len(names), PHOTOS, missing, complete)

    shapes = np.array([_read_points(points[name]) for name in names])
    grid = np.arange(size) + 1j * np.arange(size)[:, None]  # the pixels of the returned images
    if faces == "aligned":
        mouths = shapes[:, MOUTH].mean(axis=1, keepdims=True)
        turns, shifts = _similarity(np.hstack([shapes[:, PUPILS], mouths]), PLACES * (size - 1))
        landmarks = turns * shapes + shifts
    elif faces == "photos":
        landmarks = shapes.copy()
    else:
        mean = _mean_shape(shapes, size)
        turns, _ = _similarity(shapes, mean)
        weights, inside = _triangle_weights(mean, grid)
        landmarks = np.tile(mean, (len(shapes), 1))

    def cut(index: int, photo: Grey) -> Grey:
        if faces == "photos":
            landmarks[index] *= min(1.0, size / max(photo.shape))
            return fit_within(photo, size)
        scale = float(abs(turns[index, 0]))
        if faces == "aligned":
            return _sample(photo, (grid - shifts[index]) / turns[index], scale)
        image = np.full(inside.shape, OUTSIDE, dtype=np.uint8)
        image[inside] = _sample(photo, weights @ shapes[index], scale)
        return image

    paths = [photos[name] for name in names]
    ages = [int(match[2]) for match in map(_NAME.fullmatch, names) if match]
    return Bunch(
        images=read_grey(paths, cut),
        target=np.array(ages, dtype=float),
        target_names=["age"],
        groups=np.array([int(name[:3]) for name in names], dtype=int),
        paths=paths,
        missing=missing,
        names=[path.stem for path in paths],
        landmarks=np.stack([landmarks.real, landmarks.imag], axis=-1),
    )


def _by_name(folder: Path, endings: tuple[str, ...]) -> dict[str, Path]:
    """Files by their name in small letters: photos and points are written differently."""
    return {
        path.stem.lower(): path
        for path in sorted(folder.iterdir())
        if path.suffix.lower() in endings and _NAME.fullmatch(path.stem.lower())
    }


def _read_points(path: Path) -> Points:
    """The landmarks of a .pts file: x and y of each point between braces."""
    inside = re.search(r"\{([^}]*)\}", path.read_text(encoding="latin-1"))
    try:
        numbers = np.array(inside[1].split() if inside else [], dtype=np.float64).reshape(POINTS, 2)
    except ValueError:
        raise DatasetError(f"{path}: not {POINTS} points between braces; copy it again") from None
    return numbers[:, 0] + 1j * numbers[:, 1]


def _similarity(shapes: Points, goal: Points) -> tuple[Points, Points]:
    """Turn (with scale) and shift, each (n, 1), that bring shapes (n, k) nearest to the goal (k)."""
    middles = shapes.mean(axis=1, keepdims=True)
    centred = shapes - middles
    turns = (centred.conj() @ (goal - goal.mean()))[:, None]
    turns /= (abs(centred) ** 2).sum(axis=1, keepdims=True)
    return turns, goal.mean() - turns * middles


def _mean_shape(shapes: Points, size: int) -> Points:
    """The Procrustes mean of shapes (n, 68): eyes level, as large as size x size pixels allow."""
    mean = shapes[0]
    for _ in range(10):  # from the third on it moves by less than a thousandth of a pixel
        turns, shifts = _similarity(shapes, mean)
        mean = (turns * shapes + shifts).mean(axis=0)
        # Eyes level and one apart, or the mean would shrink and wander from round to round.
        mean = (mean - mean.mean()) / (mean[PUPILS[1]] - mean[PUPILS[0]])
    low = mean.real.min() + 1j * mean.imag.min()
    high = mean.real.max() + 1j * mean.imag.max()
    factor = (size - 3) / max((high - low).real, (high - low).imag)  # a pixel stays free all round
    return (mean - (low + high) / 2) * factor + (size - 1) / 2 * (1 + 1j)


def _triangle_weights(mean: Points, grid: Points) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Each pixel of the mean face as a weighted sum of its triangle's corners, and which pixels.

    The same weights on a photo's own landmarks say where that pixel lies in the photo: this is
    the piecewise affine warp.
    """
    mesh = Delaunay(np.column_stack([mean.real, mean.imag]))
    pixels = np.column_stack([grid.real.ravel(), grid.imag.ravel()])
    triangle = mesh.find_simplex(pixels)
    inside = triangle >= 0
    pixels, triangle = pixels[inside], triangle[inside]
    to_weights = mesh.transform[triangle]
    first_two = np.einsum("pij,pj->pi", to_weights[:, :2], pixels - to_weights[:, 2])
    weights = np.zeros((len(pixels), len(mean)))
    corners = np.column_stack([first_two, 1 - first_two.sum(axis=1)])
    np.put_along_axis(weights, mesh.simplices[triangle], corners, axis=1)
    return weights, inside.reshape(grid.shape)


def _sample(photo: Grey, positions: Points, scale: float) -> NDArray[np.uint8]:
    """The photo's values at these positions; `scale` says how much smaller the result is."""
    # Blurred first as far as it shrinks: fine detail would else turn into false patterns.
    soft = gaussian_filter(photo.astype(np.float32), max(0.0, (1 / scale - 1) / 2))
    values = map_coordinates(soft, [positions.imag, positions.real], order=1, mode="nearest")
    return np.rint(values).clip(0, 255).astype(np.uint8)
