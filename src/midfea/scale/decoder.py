"""`Decoder`: an image of a manifest to a picture, or why there is none. A bad image never ends it."""

from __future__ import annotations

from typing import NamedTuple

from midfea.pictures.images import picture_of
from midfea.pictures.limits import ImageError
from midfea.pictures.picture import Picture
from midfea.pictures.reading import open_content
from midfea.scale.manifest import Row
from midfea.scale.reader import ImageReader

MAX_REASON_CHARACTERS = 500


class View(NamedTuple):
    """How a model sees images; see `midfea.pictures.images.picture_of`."""

    max_side: int | None
    min_side: int
    rounded: bool
    coloured: bool = True

    @property
    def max_bytes(self) -> int | None:
        """Of a picture; None if it can be of any size."""
        planes = 3 if self.coloured else 1
        return None if self.max_side is None else 4 * planes * self.max_side**2


class Failure(NamedTuple):
    """Why an image has no row.

    reason : one line of text
    unreadable : nothing was read, so another run may succeed
    """

    reason: str
    unreadable: bool = False

    @classmethod
    def of(cls, error: Exception, unreadable: bool = False) -> Failure:
        """What an exception says."""
        if isinstance(error, FileNotFoundError) and error.errno is not None:
            return cls("no such file", unreadable)
        text = str(getattr(error, "strerror", None) or error) or type(error).__name__
        line = " ".join(text.split())[:MAX_REASON_CHARACTERS]
        return cls(line.encode(errors="replace").decode(), unreadable)


class Decoded(NamedTuple):
    """A row of a manifest, and what came of its image."""

    row: Row
    result: Picture | Failure


class Decoder:
    """Reads and decodes images, one after the other. A new one can be sent to another process."""

    def __init__(self, view: View) -> None:
        self.view, self._reader = view, ImageReader()

    def decode(self, address: str) -> Picture | Failure:
        """The image at an address as the model sees it."""
        try:
            content = self._reader.content(address)
        except Exception as error:  # of files, archives, and of whatever fsspec calls
            return Failure.of(error, unreadable=not isinstance(error, ImageError))
        try:
            with open_content(content) as pixels:
                return picture_of(pixels, *self.view)
        except Exception as error:
            return Failure.of(error)

    def close(self) -> None:
        """Close the archives that it has read."""
        self._reader.close()
