"""`ImageReader`: the bytes of an image at any address."""

from __future__ import annotations

from collections import OrderedDict

from midfea.pictures.limits import ImageLimits
from midfea.scale.address import Address
from midfea.scale.archives import Archive, TarArchive, ZipArchive
from midfea.scale.files import files_at
from midfea.scale.parquet_images import ParquetImages

MAX_OPEN_ARCHIVES = 4
KINDS: dict[str, type[TarArchive] | type[ZipArchive] | type[ParquetImages]] = {
    "tar": TarArchive,
    "zip": ZipArchive,
    "parquet": ParquetImages,
}


def open_archive(path: str) -> Archive:
    """The archive at a path; OSError if it cannot be read."""
    file = files_at(path).open(path)
    try:
        return KINDS[path.rpartition(".")[2].lower()](file)
    except BaseException:
        file.close()
        raise


class ImageReader:
    """Reads images of files and archives; the last few archives stay open."""

    def __init__(self, limits: ImageLimits | None = None) -> None:
        self._limits = limits or ImageLimits.from_environment()
        self._open: OrderedDict[str, Archive] = OrderedDict()

    def content(self, address: str) -> bytes:
        """The bytes of an image; OSError if there are none to read, ImageError if there are too many."""
        file, member = Address.parse(address)
        if member is None:
            return files_at(file).content(file, self._limits)
        return self._archive(file).content(member, self._limits)

    def close(self) -> None:
        """Close all archives."""
        while self._open:
            self._open.popitem()[1].close()

    def _archive(self, path: str) -> Archive:
        if path not in self._open:
            self._open[path] = open_archive(path)
            if len(self._open) > MAX_OPEN_ARCHIVES:
                self._open.popitem(last=False)[1].close()
        self._open.move_to_end(path)
        return self._open[path]
