"""Drawn photos: smooth coloured noise, their copies in other encodings, and series of alike frames."""

import io

import numpy as np
from PIL import Image
from scipy.ndimage import gaussian_filter

N_DRIVES, N_FRAMES = 6, 5  # of each of two classes


def photo(seed, size=(90, 120)):
    """As different from other seeds as photographs are from each other."""
    noise = np.random.RandomState(seed).randn(*size, 3)
    smooth = gaussian_filter(noise, (4, 4, 0)) * 14 + 0.04 * noise
    return Image.fromarray((128 + 60 * smooth).clip(0, 255).astype(np.uint8))


def saved(image, form, **options):
    """The image after it was encoded and decoded."""
    file = io.BytesIO()
    image.save(file, form, **options)
    return Image.open(file).convert("RGB")


def drive(seed):
    """Grey frames of one scene that moves a little, in its own light."""
    scene = np.asarray(photo(seed)).astype(float) * (0.5 + 0.5 * np.random.RandomState(seed).rand())
    frames = [scene[2 * i : 70 + 2 * i, :70, 0] for i in range(N_FRAMES)]
    return [gaussian_filter(frame, 1).astype(np.uint8) for frame in frames]


def drives():
    """Frames of two classes, drive by drive."""
    return [frame for seed in range(2 * N_DRIVES) for frame in drive(seed)]


def names_of_drives(folder, name):
    """Paths of these frames: name(class, drive, frame)."""
    return [
        folder / f"class{label}" / name(label, number, frame)
        for label in range(2)
        for number in range(N_DRIVES)
        for frame in range(N_FRAMES)
    ]


def write_drives(folder):
    """A folder for each class with the frames of its drives: 00003-00001.png is a frame of drive 3."""
    paths = names_of_drives(folder, lambda label, number, frame: f"{number:05}-{frame:05}.png")
    for path, frame in zip(paths, drives(), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(frame).save(path)
    return paths
