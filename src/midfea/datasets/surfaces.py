"""Six kinds of surface defect under changing light, drawn by code: the built-in image set.

Everything is additive in the *logarithm* of the reflected light: brushed metal + defect + lamp.
A defect that halves the light then halves it in sun and in shade alike, and "lighter" is simply
the opposite sign of "darker". The sensor turns the sum into grey levels at the very end.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import NDArray
from sklearn.utils import Bunch

Array = NDArray[Any]

_DESCR = """\
Synthetic surface defects
-------------------------
Grey images of a brushed metal surface, each with one defect of one of six kinds, drawn by midfea
itself from random numbers. They are NOT photographs: a score on this set shows that a method runs
and ignores light, not that it will work on a real inspection line.

scratch    a few long, thin, straight, nearly parallel lines
crack      one jagged line that branches
inclusion  a few smooth elongated blobs, lying the same way
pits       many small round dents, each with a lit and a shaded side
patch      one irregular region with a coarse grain
scale      a band of fine, wavy ripples

Position, size, tilt (up to 35 degrees), contrast and polarity (lighter or darker) of the defect are
random. So are the tilt of the brushing, brightness, gamma, haze, light gradient, vignetting, a soft
shadow edge and sensor noise. None of these depends on the kind.
"""


def _thin(size: int) -> float:
    """Pixels of the thinnest line: it grows with the image, but never below what a sensor sees."""
    return max(size / 96, 1.0)


def _noise(rng: Generator, size: int, angle: float, along: float, across: float) -> Array:
    """Unit-variance noise, blurred by one Gaussian along a direction and by another across it."""
    fy, fx = np.fft.fftfreq(size)[:, None], np.fft.rfftfreq(size)
    fu, fv = fx * np.cos(angle) + fy * np.sin(angle), fy * np.cos(angle) - fx * np.sin(angle)
    blur = np.exp(-2 * np.pi**2 * ((along * fu) ** 2 + (across * fv) ** 2))
    white = np.fft.rfft2(rng.standard_normal((size, size)))
    noise = np.fft.irfft2(white * blur, s=(size, size))
    return noise / noise.std()


# -- the six kinds -------------------------------------------------------------------------------
# Each gets the coordinates (u, v) of every pixel in the defect's own frame, where the defect fills
# about the unit disc and lies along u, and `px`, the width of the thinnest line in that frame. It
# returns the change of log light, about 1 at its strongest.


def _stroke(u: Array, v: Array, start: Array, end: Array, width: float) -> Array:
    """A soft line of the given width from start to end."""
    along = end - start
    place = ((u - start[0]) * along[0] + (v - start[1]) * along[1]) / (along @ along)
    place = np.clip(place, 0.0, 1.0)
    du, dv = u - start[0] - place * along[0], v - start[1] - place * along[1]
    return np.exp(-(du**2 + dv**2) / (2 * width**2))


def _scratch(rng: Generator, u: Array, v: Array, px: float) -> Array:
    change = np.zeros_like(u)
    count = rng.integers(2, 5)
    for offset in np.linspace(-0.45, 0.45, count) + rng.uniform(-0.12, 0.12, count):
        start = np.array([rng.uniform(-0.95, -0.6), offset + rng.uniform(-0.1, 0.1)])
        end = np.array([rng.uniform(0.6, 0.95), offset + rng.uniform(-0.1, 0.1)])
        line = rng.uniform(0.7, 1.0) * _stroke(u, v, start, end, rng.uniform(0.6, 0.9) * px)
        change = np.maximum(change, line)
    # a tool lifts off gradually, so the ends fade
    return change * np.clip((1.05 - np.abs(u)) / 0.4, 0.0, 1.0)


def _crack(rng: Generator, u: Array, v: Array, px: float) -> Array:
    change = np.zeros_like(u)

    def walk(start: Array, heading: float, steps: int, width: float) -> list[Array]:
        points = [start]
        for turn in rng.choice([-1, 1], steps) * rng.uniform(0.2, 1.0, steps):
            way = np.array([np.cos(heading + turn), np.sin(heading + turn)])
            points.append(points[-1] + rng.uniform(0.07, 0.18) * way)
            np.maximum(change, _stroke(u, v, points[-2], points[-1], width), out=change)
        return points

    trunk = walk(np.array([-0.9, 0.0]), 0.0, 18, 0.9 * px)
    for root in rng.choice(np.arange(2, 14), rng.integers(3, 6), replace=False):
        side = rng.choice([-1, 1]) * rng.uniform(0.6, 1.2)
        walk(trunk[root], side, int(rng.integers(4, 9)), 0.65 * px)
    return change


def _inclusion(rng: Generator, u: Array, v: Array, px: float) -> Array:
    change = np.zeros_like(u)
    count = rng.integers(3, 6)
    # one blob per lane, so that they do not merge into a patch
    for lane in np.linspace(-0.6, 0.6, count):
        length, tilt = rng.uniform(0.25, 0.45), rng.uniform(-0.25, 0.25)
        thickness = max(length * rng.uniform(0.2, 0.32), 1.5 * px)
        du, dv = u - rng.uniform(-0.45, 0.45), v - lane
        radius = np.hypot((du + tilt * dv) / length, (dv - tilt * du) / thickness)
        blob = np.clip((1.25 - radius) / 0.5, 0.0, 1.0)
        change = np.maximum(change, blob)
    return change


def _pits(rng: Generator, u: Array, v: Array, px: float) -> Array:
    change = np.zeros_like(u)
    lamp = rng.uniform(0, 2 * np.pi)
    for _ in range(rng.integers(18, 34)):
        angle, distance = rng.uniform(0, 2 * np.pi), 0.85 * np.sqrt(rng.uniform())
        radius = max(rng.uniform(0.042, 0.076), px)
        du = (u - distance * np.cos(angle)) / radius
        dv = (v - distance * np.sin(angle)) / radius
        # the slope of a round dent seen by a slanting lamp, with a shade in its middle
        dent = np.exp(-(du**2 + dv**2) / 2)
        change += 1.5 * (du * np.cos(lamp) + dv * np.sin(lamp) - 0.3) * dent
    return change


def _patch(rng: Generator, u: Array, v: Array, px: float) -> Array:
    angle, outline = np.arctan2(v, u), np.full_like(u, 0.75)
    for harmonic in range(2, 7):
        outline += 0.3 / harmonic * np.cos(harmonic * angle + rng.uniform(0, 2 * np.pi))
    inside = np.clip((outline - np.hypot(u, v)) / (2 * px), 0.0, 1.0)
    grain = 1.1 * _thin(len(u))
    return inside * (0.35 + 0.5 * _noise(rng, len(u), 0.0, grain, grain))


def _scale(rng: Generator, u: Array, v: Array, px: float) -> Array:
    phase = rng.uniform(0, 2 * np.pi, 3)
    bend = 0.1 * np.sin(4 * u + phase[0]) + 0.04 * np.sin(9 * u + phase[1])
    band = 0.5 + 0.08 * np.sin(5 * u + phase[2])
    inside = np.clip((band - np.abs(v + bend)) / 0.15, 0.0, 1.0)
    inside *= np.clip((0.9 - np.abs(u)) / 0.2, 0.0, 1.0)
    # ripples lie across the band, bent by the same wave
    wave = u + 0.12 * np.sin(5 * v + phase[1]) + 0.5 * bend
    return inside * np.sin(2 * np.pi * wave / (rng.uniform(5.0, 8.0) * px))


_KINDS: dict[str, Callable[[Generator, Array, Array, float], Array]] = {
    "scratch": _scratch,
    "crack": _crack,
    "inclusion": _inclusion,
    "pits": _pits,
    "patch": _patch,
    "scale": _scale,
}


# -- metal, lamp and sensor ----------------------------------------------------------------------


def _brushed(rng: Generator, size: int) -> Array:
    """Fine streaks, along the rolling direction or nearly so."""
    along, across = rng.uniform(4, 12) * _thin(size), rng.uniform(0.3, 0.6) * _thin(size)
    return rng.uniform(0.01, 0.03) * _noise(rng, size, rng.uniform(-0.3, 0.3), along, across)


def _lamp(rng: Generator, y: Array, x: Array) -> Array:
    """Brightness, gradient, vignetting (or a highlight) and a soft shadow edge, in log light."""
    angle, edge_angle = rng.uniform(0, 2 * np.pi, 2)
    gradient = rng.uniform(0, 1.6) * ((x - 0.5) * np.cos(angle) + (y - 0.5) * np.sin(angle))
    centre_y, centre_x = rng.uniform(0.2, 0.8, 2)
    spot = rng.uniform(-1.2, 1.2) * ((x - centre_x) ** 2 + (y - centre_y) ** 2)
    beyond = (x - 0.5) * np.cos(edge_angle) + (y - 0.5) * np.sin(edge_angle)
    beyond = beyond - rng.uniform(-0.4, 0.4)
    edge = rng.uniform(0, 0.5) * np.tanh(beyond / rng.uniform(0.04, 0.2))
    return rng.uniform(-1.3, 0.2) + gradient + spot + edge


def _draw(kind: str, size: int, rng: Generator) -> tuple[Array, Array]:
    """The image with its defect, and the same image (same light, same noise) without it."""
    y, x = (np.mgrid[:size, :size] + 0.5) / size
    reach = rng.uniform(0.28, 0.38)
    centre_y, centre_x = rng.uniform(reach, 1 - reach, 2)
    angle = rng.uniform(-0.6, 0.6)  # the sheet moves past the camera one way
    dy, dx = (y - centre_y) / reach, (x - centre_x) / reach
    u, v = dx * np.cos(angle) + dy * np.sin(angle), dy * np.cos(angle) - dx * np.sin(angle)

    strength = rng.choice([-1, 1]) * rng.uniform(0.45, 0.9)
    change = strength * _KINDS[kind](rng, u, v, _thin(size) / size / reach)
    change[np.abs(change) < 0.04] = 0.0  # a tail too faint to see must not widen the box
    surface = _brushed(rng, size) + _lamp(rng, y, x)
    gamma, haze = rng.uniform(0.75, 1.3), rng.uniform(0, 0.2)
    noise = rng.uniform(0.001, 0.004) * rng.standard_normal((size, size))

    def sensor(log_light: Array) -> Array:
        # 1 - exp(-light) saturates softly: a highlight dims a defect but does not erase it
        grey = haze + (1 - haze) * -np.expm1(-np.exp(gamma * log_light))
        return np.rint(255 * np.clip(grey + noise, 0.0, 1.0)).astype(np.uint8)

    return sensor(surface + change), sensor(surface)


def load_surfaces(n_per_class: int = 60, size: int = 96, random_state: int | None = 0) -> Bunch:
    """Draw the built-in set: six kinds of surface defect on brushed metal under changing light.

    The images are synthetic, drawn from random numbers; nothing is downloaded. Light changes
    so much from one image to the next that raw pixels do not separate the kinds, while their local
    texture does.

    Parameters
    ----------
    n_per_class : int, default=60
        Images of each kind. The first images of a kind stay the same when this grows.
    size : int, default=96
        Side of the square images in pixels, at least 32.
    random_state : int or None, default=0
        Seed of the drawing and of the order. The same seed gives the same bytes (with
        the same NumPy); None gives other images at each call.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        images : uint8 array of shape (6 * n_per_class, size, size)
            Grey images, in random order.
        target : int array of shape (6 * n_per_class,)
            The kind of each image, an index into ``target_names``.
        target_names : list of str
            The six kinds.
        boxes : int array of shape (6 * n_per_class, 4)
            ``y0, x0, y1, x1`` of the defect, half-open: the smallest box around the pixels that
            it changed, so ``image[y0:y1, x0:x1]`` shows all of it.
        DESCR : str
            What the set is, and that it is synthetic.

    Examples
    --------
    >>> from midfea.datasets.surfaces import load_surfaces
    >>> data = load_surfaces(n_per_class=2)
    >>> data.images.shape
    (12, 96, 96)
    >>> data.target_names
    ['scratch', 'crack', 'inclusion', 'pits', 'patch', 'scale']
    """
    seed = int(default_rng().integers(2**63)) if random_state is None else random_state
    for name, value, least in (
        ("n_per_class", n_per_class, 1),
        ("size", size, 32),  # below it a dent and a blob are the same few pixels
        ("random_state", seed, 0),
    ):
        if not isinstance(value, Integral) or value < least:
            raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}.")

    images, boxes = [], []
    for label, kind in enumerate(_KINDS):
        for index in range(n_per_class):
            # a generator per image: image i of a kind does not depend on how many are drawn
            image, clean = _draw(kind, size, default_rng([seed, label, index]))
            images.append(image)
            changed = np.argwhere(image != clean)
            boxes.append([*changed.min(axis=0), *(changed.max(axis=0) + 1)])
    order = default_rng([seed, len(_KINDS)]).permutation(len(images))
    return Bunch(
        images=np.stack(images)[order],
        target=np.repeat(np.arange(len(_KINDS)), n_per_class)[order],
        target_names=list(_KINDS),
        boxes=np.array(boxes)[order],
        DESCR=_DESCR,
    )
