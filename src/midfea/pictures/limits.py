"""What an image file may cost: limits that hold for the library, the command and the page."""

from __future__ import annotations

import os
from dataclasses import dataclass

MEGABYTE = 1_000_000
MEGAPIXEL = 1_000_000
MAX_SIDE_PIXELS = 200_000  # reducing a longer side would take more memory than the pixels


class ImageError(ValueError):
    """An image that cannot be used; the message says which one and why."""


@dataclass(frozen=True)
class ImageLimits:
    """The limits, each of which an environment variable raises (see `from_environment`).

    Attributes
    ----------
    max_bytes : of the file
    max_pixels : of the image; so many may also be decoded at the same time, in all threads together
    max_seconds : of decoding in a process of its own, for a file of 4 MB or less; more for larger ones
    """

    max_bytes: int = 512 * MEGABYTE
    max_pixels: int = 60 * MEGAPIXEL
    max_seconds: float = 4.0

    @classmethod
    def from_environment(cls) -> ImageLimits:
        """MIDFEA_MAX_MEGABYTES, MIDFEA_MAX_MEGAPIXELS and MIDFEA_MAX_SECONDS, or the usual limits."""
        return cls(
            int(_variable("MEGABYTES", cls.max_bytes / MEGABYTE) * MEGABYTE),
            int(_variable("MEGAPIXELS", cls.max_pixels / MEGAPIXEL) * MEGAPIXEL),
            _variable("SECONDS", cls.max_seconds),
        )

    @property
    def max_work(self) -> int:
        """Pixels times scans of a JPEG file. Cameras and websites write at most about ten scans."""
        return 10 * self.max_pixels

    def seconds(self, n_bytes: int) -> float:
        """How long decoding a file of that size may take."""
        return self.max_seconds * max(1.0, n_bytes / (4 * MEGABYTE))

    def check_bytes(self, n_bytes: int) -> None:
        """ImageError if a file is too large."""
        if n_bytes > self.max_bytes:
            raise ImageError(
                f"has {n_bytes / MEGABYTE:.0f} MB, at most {self.max_bytes / MEGABYTE:.0f} are read: "
                "reduce it, or set MIDFEA_MAX_MEGABYTES"
            )

    def check_pixels(self, width: int, height: int) -> None:
        """ImageError if an image is too large."""
        if width * height > self.max_pixels:
            raise self.too_many_pixels(f"{width}x{height}")
        if max(width, height) > MAX_SIDE_PIXELS:
            raise ImageError(f"has {width}x{height} pixels, more than {MAX_SIDE_PIXELS} on a side")

    def too_many_pixels(self, size: str) -> ImageError:
        """The error for an image of that size."""
        return ImageError(
            f"has {size} pixels, at most {self.max_pixels / MEGAPIXEL:.0f} megapixels are read: "
            "reduce it, or set MIDFEA_MAX_MEGAPIXELS"
        )

    def check_scans(self, n_scans: int, n_pixels: int) -> None:
        """ImageError if a JPEG file wants its pixels decoded too many times."""
        if n_scans * n_pixels > self.max_work:
            raise ImageError(
                f"has {n_scans} scans of all its pixels, which no camera writes: save it anew"
            )


def _variable(name: str, usual: float) -> float:
    given = os.environ.get(f"MIDFEA_MAX_{name}", "")
    try:
        value = float(given or usual)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise ValueError(f"MIDFEA_MAX_{name} must be a number above zero, got {given!r}")
    return value
