"""What can hold images: a folder, a pattern, a list of files, an archive; here or far away."""

from __future__ import annotations

import io
import os
import posixpath
from collections.abc import Iterator
from typing import NamedTuple

from midfea.pictures.formats import has_image_ending, has_other_picture_ending, why_not_read
from midfea.scale.address import Address, is_archive, is_text, is_url
from midfea.scale.files import File, LeftOut, absolute, files_at
from midfea.scale.reader import open_archive

LIST_ENDINGS = (".txt", ".tsv", ".lst")
COMPRESSED = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")
MAX_LINE_CHARACTERS = 100_000  # of a list of files


class Entry(NamedTuple):
    """An image, as a manifest lists it.

    Attributes
    ----------
    address : see `midfea.scale.address`
    label : its class; None if not known
    size : bytes; None if not known
    """

    address: str
    label: str | None = None
    size: int | None = None


def find_entries(source: str) -> Iterator[Entry | LeftOut]:
    """The images of a source, in an order that stays the same, and what was left out.

    source : a folder (the folders inside it are the classes), a pattern such as 'photos/*/*.jpg' (the
        folder that holds an image is its class), a list of files (.txt, .tsv: one a line, the label
        behind a tab), an archive (.tar, .zip, .parquet), or one image; a path or an address of fsspec
    """
    files = files_at(source)
    for path in files.matching(absolute(source)):
        if files.is_folder(path):
            for found in files.inside(path):
                yield from [found] if isinstance(found, LeftOut) else _of_file(found, in_folder=True)
        elif path.lower().endswith(LIST_ENDINGS):
            yield from _of_list(path)
        else:
            label = None if path == absolute(source) else os.path.basename(os.path.dirname(path))
            yield from _of_file(File(path, label or None), in_folder=False)


def _of_file(file: File, in_folder: bool) -> Iterator[Entry | LeftOut]:
    """The image that a file is, or those that it holds; other files of a folder are passed over."""
    name = file.path
    if is_archive(name):
        yield from _of_archive(name)
    elif has_image_ending(name):
        yield _checked(Address(name), file.label, _size(file))
    elif has_other_picture_ending(name):
        yield LeftOut(name, why_not_read(name))
    elif name.lower().endswith(COMPRESSED):
        yield LeftOut(
            name, "compressed as a whole, so that no image can be read alone: unpack it to .tar"
        )
    elif not in_folder:
        yield LeftOut(name, "no image, no archive and no list of files (.txt), by its ending")


def _of_archive(path: str) -> Iterator[Entry | LeftOut]:
    try:
        archive = open_archive(path)
    except OSError as error:
        yield LeftOut(path, str(error.strerror or error))
        return
    try:
        for member in archive.members():
            address = Address(path, member.name or None)
            if member.problem:
                yield LeftOut(str(address), member.problem)
            else:
                yield _checked(address, member.label, member.size)
    finally:
        archive.close()


def _of_list(path: str) -> Iterator[Entry | LeftOut]:
    """One address a line, and its label behind a tab; names are those beside the list."""
    with io.TextIOWrapper(files_at(path).open(path), "utf-8", "surrogateescape", "\n") as lines:
        number = 0
        while line := lines.readline(MAX_LINE_CHARACTERS):
            number += 1
            if len(line) == MAX_LINE_CHARACTERS:
                raise ValueError(f"{path}: line {number} is no file name: this is no list of files")
            name, _, label = line.rstrip("\r\n").partition("\t")
            if name.strip():
                yield _checked(_beside(path, name), label.strip() or None, None)


def _beside(path: str, name: str) -> Address:
    address = Address.parse(name)
    if is_url(address.file):
        return address
    if is_url(path):
        return address._replace(file=posixpath.join(posixpath.dirname(path), address.file))
    return address._replace(file=os.path.join(os.path.dirname(path), address.file))


def _checked(address: Address, label: str | None, size: int | None) -> Entry | LeftOut:
    problem = address.problem
    if label is not None and not is_text(label):
        problem = "its label is not valid UTF-8"
    return LeftOut(str(address), problem) if problem else Entry(str(address), label, size)


def _size(file: File) -> int | None:
    """In bytes; None if nobody knows yet."""
    if file.size is not None or is_url(file.path):
        return file.size
    try:
        return os.stat(file.path).st_size
    except OSError:  # whoever reads it will say so
        return None
