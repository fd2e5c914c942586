"""Files that hold many images: tar (WebDataset's layout too) and zip. Nothing is unpacked to disk."""

from __future__ import annotations

import posixpath
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, NamedTuple, Protocol

from midfea.pictures.formats import has_image_ending, has_other_picture_ending, why_not_read
from midfea.pictures.limits import ImageError, ImageLimits

MAX_LABEL_BYTES = 1000  # of a file .cls


class Member(NamedTuple):
    """An image inside an archive, or what was left out, and why."""

    name: str
    label: str | None = None
    size: int | None = None
    problem: str = ""


class Archive(Protocol):
    """An archive whose images can be read one by one."""

    def members(self) -> Iterator[Member]:
        """The images, in the order in which they lie there, and what was left out."""

    def content(self, member: str, limits: ImageLimits) -> bytes:
        """The bytes of an image; OSError if it is not there, ImageError if it cannot be used."""

    def close(self) -> None:
        """Close the file."""


class _Place(NamedTuple):
    """Where a member lies in a tar file."""

    offset: int
    size: int


class TarArchive:
    """A tar file without compression.

    The label of an image is the content of the file beside it that has the same name up to the first dot
    and the ending .cls, else the name of the folder that holds it.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._places: dict[str, _Place] = {}
        self._damage = ""
        try:
            self._scan()
        except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
            self._damage = (
                f"the archive is damaged ({error}): its first {len(self._places)} files are read"
            )

    def members(self) -> Iterator[Member]:
        """See `Archive`."""
        for name, place in self._places.items():
            if _is_hidden(name):
                continue
            if has_other_picture_ending(name):
                yield Member(name, problem=why_not_read(name))
            elif has_image_ending(name):
                yield Member(name, self._label(name), place.size)
        if self._damage:
            yield Member("", problem=self._damage)

    def content(self, member: str, limits: ImageLimits) -> bytes:
        """See `Archive`."""
        place = self._places.get(member)
        if place is None:
            raise FileNotFoundError("no such file in the archive")
        limits.check_bytes(place.size)
        self._file.seek(place.offset)
        content = self._file.read(place.size)
        if len(content) < place.size:
            raise OSError("the archive ends in the middle of it")
        return content

    def close(self) -> None:
        """See `Archive`."""
        self._file.close()

    def _scan(self) -> None:
        """Find the files by their headers alone."""
        with tarfile.open(fileobj=self._file, mode="r:") as tar:
            end = -1
            while (header := tar.next()) is not None:
                if header.offset <= end:
                    raise tarfile.ReadError("a header points back")
                end = header.offset
                if header.isreg() and not header.issparse():
                    self._places[header.name] = _Place(header.offset_data, header.size)
                tar.members.clear()  # type: ignore[attr-defined]  # tarfile would keep them all
            self._file.seek(tar.offset)
            if self._file.read(tarfile.BLOCKSIZE).strip(b"\0"):  # tarfile stops there and says nothing
                raise tarfile.ReadError(f"no header at byte {tar.offset}")

    def _label(self, name: str) -> str | None:
        folder, base = posixpath.split(name)
        beside = self._places.get(posixpath.join(folder, base.partition(".")[0] + ".cls"))
        if beside is None or beside.size > MAX_LABEL_BYTES:
            return _label_of_folder(name)
        self._file.seek(beside.offset)
        return self._file.read(beside.size).decode(errors="replace").strip() or None


class ZipArchive:
    """A zip file. The label of an image is the name of the folder that holds it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        try:
            self._zip = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise OSError(f"is not a readable zip file ({error})") from None

    def members(self) -> Iterator[Member]:
        """See `Archive`."""
        for entry in self._zip.infolist():
            name = entry.filename
            if entry.is_dir() or _is_hidden(name):
                continue
            if has_other_picture_ending(name):
                yield Member(name, problem=why_not_read(name))
            elif has_image_ending(name):
                yield Member(name, _label_of_folder(name), entry.file_size)

    def content(self, member: str, limits: ImageLimits) -> bytes:
        """See `Archive`."""
        try:
            entry = self._zip.getinfo(member)
        except KeyError:
            raise FileNotFoundError("no such file in the archive") from None
        limits.check_bytes(entry.file_size)
        try:
            with self._zip.open(entry) as file:
                return file.read(entry.file_size)  # never more, whatever it would unpack to
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
            raise ImageError(f"cannot be unpacked ({error})") from None

    def close(self) -> None:
        """See `Archive`."""
        self._zip.close()
        self._file.close()


def _is_hidden(name: str) -> bool:
    return any(part.startswith((".", "__MACOSX")) for part in name.removeprefix("./").split("/"))


def _label_of_folder(name: str) -> str | None:
    folder = posixpath.basename(posixpath.dirname(name))
    return None if folder in ("", ".") else folder
