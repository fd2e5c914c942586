"""Where files lie: on this machine, or at an address of fsspec. The same questions to both."""

from __future__ import annotations

import errno
import glob
import io
import os
from collections.abc import Iterator
from typing import IO, Any, NamedTuple, Protocol, cast

import fsspec

from midfea.datasets.folder import Skipped, walk_files
from midfea.files import did_you_mean, open_regular
from midfea.pictures.limits import ImageLimits
from midfea.pictures.reading import file_content
from midfea.scale.address import is_url

BUFFER_BYTES = 2**18  # of an archive on this machine


class File(NamedTuple):
    """A file that was found.

    Attributes
    ----------
    path : where it lies
    label : the name of the folder that is its class; None if it lies in no class
    size : bytes; None if not known
    """

    path: str
    label: str | None = None
    size: int | None = None


class LeftOut(NamedTuple):
    """What was left out, and why."""

    path: str
    reason: str


class Files(Protocol):
    """The files of one machine or service."""

    def is_folder(self, path: str) -> bool:
        """Whether it is a folder."""

    def inside(self, folder: str) -> Iterator[File | LeftOut]:
        """All files of a folder, those inside its folders labelled by them; hidden ones left out."""

    def matching(self, pattern: str) -> list[str]:
        """The files and folders that a pattern means, sorted; the path itself if it exists."""

    def open(self, path: str) -> IO[bytes]:
        """A file to read from any place in it; OSError if that cannot be."""

    def content(self, path: str, limits: ImageLimits) -> bytes:
        """All bytes; OSError if it cannot be read, ImageError if there are too many."""


def files_at(path: str) -> Files:
    """Who knows the files at that path."""
    return RemoteFiles(path) if is_url(path) else LocalFiles()


class LocalFiles:
    """`Files` of this machine, found by the rules of `midfea.datasets.folder`."""

    def is_folder(self, path: str) -> bool:
        """See `Files`."""
        return os.path.isdir(path)

    def inside(self, folder: str) -> Iterator[File | LeftOut]:
        """See `Files`."""
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            if entry.name.startswith("."):
                continue
            if not entry.is_dir():
                yield File(entry.path)
                continue
            for found in walk_files(entry.path):
                if isinstance(found, Skipped):
                    yield LeftOut(str(found.path), found.reason)
                else:
                    yield File(str(found), entry.name)

    def matching(self, pattern: str) -> list[str]:
        """See `Files`."""
        if os.path.exists(pattern):
            return [pattern]
        found = sorted(glob.glob(pattern, recursive=True))
        if not found and not glob.has_magic(pattern):
            near = did_you_mean(pattern, lambda path: True)
            hint = f". Did you mean {near}?" if near else ""
            raise FileNotFoundError(f"{pattern}: no such file or folder{hint}")
        return found

    def open(self, path: str) -> IO[bytes]:
        """See `Files`."""
        return io.BufferedReader(cast(io.RawIOBase, open_regular(path)), BUFFER_BYTES)

    def content(self, path: str, limits: ImageLimits) -> bytes:
        """See `Files`."""
        return file_content(path, limits)


class RemoteFiles:
    """`Files` of a service that fsspec knows, such as s3://, gs://, memory://."""

    def __init__(self, url: str) -> None:
        try:
            self._system: Any = fsspec.core.url_to_fs(url)[0]
        except (ImportError, ValueError) as error:  # a protocol that needs a package, or is not known
            raise OSError(f"{url}: {error}") from None

    def is_folder(self, path: str) -> bool:
        """See `Files`."""
        return bool(self._system.isdir(path))

    def inside(self, folder: str) -> Iterator[File | LeftOut]:
        """See `Files`."""
        top = None
        for root, folders, files in self._system.walk(folder, detail=True):
            top = root if top is None else top
            shown = sorted(item for item in folders.items() if not item[0].startswith("."))
            folders.clear()  # those that are left are walked, in this order
            folders.update(shown)
            label = root[len(top) :].strip("/").split("/")[0] or None
            for name, about in sorted(files.items()):
                if name and not name.startswith("."):
                    yield File(self._system.unstrip_protocol(about["name"]), label, about.get("size"))

    def matching(self, pattern: str) -> list[str]:
        """See `Files`."""
        if self._system.exists(pattern):
            return [pattern]
        if not glob.has_magic(pattern):
            raise FileNotFoundError(f"{pattern}: no such file or folder")
        return [self._system.unstrip_protocol(path) for path in sorted(self._system.glob(pattern))]

    def open(self, path: str) -> IO[bytes]:
        """See `Files`."""
        try:
            opened: IO[bytes] = self._system.open(path, "rb")
        except FileNotFoundError:  # services say so in their own ways
            raise FileNotFoundError(errno.ENOENT, "no such file", path) from None
        return opened

    def content(self, path: str, limits: ImageLimits) -> bytes:
        """See `Files`."""
        with self.open(path) as file:
            content = file.read(limits.max_bytes + 1)
        limits.check_bytes(len(content))
        return content


def absolute(path: str) -> str:
    """A path that means the same from any folder."""
    return path if is_url(path) else os.path.abspath(path)
