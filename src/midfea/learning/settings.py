"""`ChainSettings`: the parameters of Section 2's chain, their defaults and the rules they must obey."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np

from midfea.engines import Encoding
from midfea.stages.filters import FilterMethod
from midfea.stages.low_level import Padding
from midfea.stages.pooling import Partition, Pooling, partition_levels

ProjectionName = Literal["random", "gaussian", "uniform", "pca"]

# What "auto" stands for where nothing is chosen by validation: the first of the candidates.
FLOORS = (0.0, 0.5)
PARTITIONS: tuple[Partition, Partition] = ("overlapping pyramid", (6, 6))
WORD_COUNTS = (4096, 16384)
COLOURS = (None, 0.3, 0.7)

# The smallest and the largest value: what lies beyond would only fill the memory, or take for ever.
_RANGES = {
    "n_filters": (2, 4096),  # with a single map nothing stands above the mean map
    "filter_size": (2, 1000),
    "window": (1, 100),
    "n_words": (1, 10_000_000),
    "n_neighbors": (1, 100),
    "n_components": (1, 100_000_000),
    "n_samples": (1, 1_000_000_000),
}
MAX_SHARPNESS, MAX_FLOOR = 1e6, 1e6
MIN_SCALE, MAX_SCALE, MAX_SCALES = 0.01, 4.0, 16
_ONE_OF: dict[str, tuple[Any, ...]] = {
    "filter_method": ("whitened", "raw"),
    "padding": ("valid", "same"),
    "encoding": ("vq", "soft", "llc"),
    "pooling": ("max", "sum"),
    "projection": ("random", "gaussian", "uniform", "pca", None),
    "rectify": (True, False),
    "pairs": (True, False),
}


@dataclass(kw_only=True, eq=False, repr=False)
class ChainSettings:
    """The parameters of Section 2's chain. The defaults are the paper's for object categories (4.4).

    Parameters
    ----------
    n_filters : how many low-level filters are learned.
    filter_size : pixels on each side of a filter.
    filter_method : "whitened" clusters the directions of whitened patches: edges and bars, without
        mean. "raw" clusters the patches as they are; most filters then differ in brightness only.
    rectify : take absolute responses before normalising: a dark and a bright line look alike.
    floor : places whose responses are shorter than this share of the image's root mean square count as
        flat; without it (0) normalisation raises a sensor's noise to full strength. "auto": a classifier
        chooses 0 or 0.5 by validation on the training images; without classes it is 0.
    padding : at the border of the image "same" mirrors the pixels; "valid" keeps the places where the
        whole filter fits.
    pairs : pool every pair of maps (2x2x2 cuboids) or each map alone (2x2).
    window : side of the windows assembled into descriptors.
    scales : sizes at which each image is seen, relative to its own; one codebook serves all, and the
        cells keep the maximum. "auto": (1.0, 0.5) if half of the images have 128 pixels or more on their
        longer side, as they are seen (`max_side`), else (1.0,).
    n_words : size of the codebook. "auto": 4096, or 16384 if the images are small and validation of a
        classifier clearly favours it.
    encoding : how codes are made: "vq" (nearest word), "soft" (localised soft assignment) or "llc".
    n_neighbors : words used by soft and LLC codes.
    sharpness : how sharply soft codes prefer the nearest word.
    partition : "pyramid" (1x1, 2x2 and 4x4 cells), "overlapping pyramid" (each of them reaches over its
        borders), (rows, columns), or {"size": pixels, "step": pixels} for overlapping cells, which need
        images of one size. "auto": a classifier chooses "overlapping pyramid" or (6, 6) by validation.
    pooling : what is kept of the codes in each cell.
    projection : "random" (sparse signs), "gaussian", "uniform" (the authors'), "pca" or None.
    n_components : dimensions after the projection; fewer if there are not so many before it.
    n_samples : descriptors from which the codebook is learned; patches, up to 50,000, for the filters.
    max_side : larger images are reduced so that their longer side has so many pixels (None: never).
    colour : weight of a colour histogram beside the chain, which sees grey values only; None: no
        colours. "auto" (presets "fast" and "best"): a classifier chooses None, 0.3 or 0.7 by validation
        on the training images; without classes it is None.
    """

    n_filters: int = 9
    filter_size: int = 7
    filter_method: FilterMethod = "whitened"
    rectify: bool = True
    floor: float | Literal["auto"] = 0.0
    padding: Padding = "same"
    pairs: bool = True
    window: int = 2
    scales: tuple[float, ...] | Literal["auto"] = (1.0,)
    n_words: int | Literal["auto"] = 1000
    encoding: Encoding = "vq"
    n_neighbors: int = 5
    sharpness: float = 10.0
    partition: Partition | Literal["auto"] = "pyramid"
    pooling: Pooling = "max"
    projection: ProjectionName | None = "random"
    n_components: int = 3000
    n_samples: int = 100_000
    max_side: int | None = 150
    colour: float | Literal["auto"] | None = None

    def chain_settings(self) -> ChainSettings:
        """The parameters of the chain alone."""
        return ChainSettings(**{f.name: getattr(self, f.name) for f in fields(ChainSettings)})

    def check(self) -> None:
        """ValueError, naming the parameter, if one cannot be used."""
        resolved = self.without_auto()
        for name, (low, high) in _RANGES.items():
            value = getattr(resolved, name)
            self._require(name, _is_integer(value, low, high), f"an integer from {low} to {high}")
        for name, choices in _ONE_OF.items():
            listed = "one of " + ", ".join(map(repr, choices))
            value = getattr(self, name)
            self._require(name, any(_is_same(value, choice) for choice in choices), listed)
        floor = resolved.floor
        fine = _is_number(floor) and 0 <= float(floor) <= MAX_FLOOR
        self._require("floor", fine, f'from 0 to {MAX_FLOOR:g}, or "auto"')
        fine = _is_number(self.sharpness) and 0 < self.sharpness <= MAX_SHARPNESS
        self._require("sharpness", fine, f"above zero, and at most {MAX_SHARPNESS:g}")
        fine = self.max_side is None or _is_integer(self.max_side, 1, 1_000_000)
        self._require("max_side", fine, "None or a number of pixels")
        colour = resolved.colour
        fine = colour is None or (_is_number(colour) and 0 < float(colour) <= 1)
        wanted = 'None, "auto", or the weight of the colours, above 0 and at most 1, such as 0.3'
        self._require("colour", fine, wanted)
        scales: Any = self.scales
        fine = isinstance(scales, tuple | list) and 0 < len(scales) <= MAX_SCALES
        fine = fine and all(_is_number(scale) and MIN_SCALE <= scale <= MAX_SCALE for scale in scales)
        message = f'factors from {MIN_SCALE:g} to {MAX_SCALE:g}, such as (1.0, 0.5), or "auto"'
        self._require("scales", fine or scales == "auto", message)
        partition_levels(resolved.partition, (64, 64))  # type: ignore[arg-type]
        if self.encoding != "vq" and self.n_neighbors > resolved.n_words:  # type: ignore[operator]
            raise ValueError(f"n_neighbors={self.n_neighbors} exceeds n_words={self.n_words}")

    def _require(self, name: str, fine: bool, wanted: str) -> None:
        if not fine:
            raise ValueError(f"{name} must be {wanted}, got {getattr(self, name)!r}")

    def without_auto(self) -> ChainSettings:
        """With the usual value for each parameter that is "auto", but for the scales."""
        usual: dict[str, Any] = {
            "floor": FLOORS[0],
            "partition": PARTITIONS[0],
            "n_words": WORD_COUNTS[0],
            "colour": COLOURS[0],
        }
        given = {name: value for name, value in usual.items() if getattr(self, name) == "auto"}
        return replace(self.chain_settings(), **given)


def _is_integer(value: Any, low: int, high: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and low <= int(value) <= high


def _is_same(value: Any, choice: Any) -> bool:
    """Kernels are compiled for each type: True is not 1."""
    return isinstance(value, bool | np.bool_) == isinstance(choice, bool) and bool(value == choice)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
