"""The way of an image through the chain of Section 2, written once.

    image -> scales -> descriptors (soft convolution, 3D max pooling, windows) -> codes -> cells

What is particular to an engine (plain NumPy, compiled loops, torch, ONNX) are its four steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

Image = TypeVar("Image", contravariant=True)
Scaled = TypeVar("Scaled")
Descriptors = TypeVar("Descriptors")
Codes = TypeVar("Codes")
Table = TypeVar("Table")


class Steps(Protocol[Image, Scaled, Descriptors, Codes, Table]):
    """The steps of the walk, for one chain."""

    def scales(self, image: Image) -> Iterable[Scaled]:
        """The image at each scale that holds a descriptor, the largest first."""

    def describe(self, scaled: Scaled) -> Descriptors:
        """Local descriptors: soft convolution, 3D max pooling, windows, unit length."""

    def encode(self, descriptors: Descriptors) -> Codes:
        """The nearest words of each descriptor, and their weights."""

    def pool(self, codes: Codes, scaled: Scaled, table: Table | None) -> Table:
        """The maximum (or sum) of each word's weights in each cell, joined to that of larger scales."""


def codes_by_scale(
    image: Image, steps: Steps[Image, Scaled, Descriptors, Codes, Table]
) -> Iterator[tuple[Scaled, Codes]]:
    """The image at each scale, and the codes of its descriptors."""
    for scaled in steps.scales(image):
        yield scaled, steps.encode(steps.describe(scaled))


def pooled_codes(image: Image, steps: Steps[Image, Scaled, Descriptors, Codes, Table]) -> Table:
    """Codes pooled in the cells, over all scales."""
    table = None
    for scaled, codes in codes_by_scale(image, steps):
        table = steps.pool(codes, scaled, table)
    assert table is not None  # the largest scale always counts
    return table
