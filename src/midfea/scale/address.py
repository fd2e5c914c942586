"""Addresses: `folder/1.jpg`, `s3://bucket/1.jpg`, `shard.tar#inside/1.jpg`, `set.parquet#17`."""

from __future__ import annotations

import re
from typing import NamedTuple

ARCHIVE_ENDINGS = (".tar", ".zip", ".parquet")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")  # one letter would be a drive of Windows
_MEMBER = re.compile(r"(.*?\.(?:tar|zip|parquet))#(.*)", re.DOTALL | re.IGNORECASE)


class Address(NamedTuple):
    """A file, and the name of what is meant inside it; None for the file itself."""

    file: str
    member: str | None = None

    def __str__(self) -> str:
        return self.file if self.member is None else f"{self.file}#{self.member}"

    @classmethod
    def parse(cls, text: str) -> Address:
        """The parts of a written address: the first archive in it holds what follows.

        Examples
        --------
        >>> Address.parse("photos/a#1.jpg")
        Address(file='photos/a#1.jpg', member=None)
        >>> Address.parse("memory://b/shard-0.tar#cats/1.jpg")
        Address(file='memory://b/shard-0.tar', member='cats/1.jpg')
        """
        match = _MEMBER.fullmatch(text)
        return cls(text) if match is None else cls(match[1], match[2])

    @property
    def problem(self) -> str:
        """Why it cannot be written as text and read again; empty if it can."""
        if not is_text(str(self)):
            return "its name is not valid UTF-8: rename it"
        if self.parse(str(self)) != self:
            return "its path reads as if it lay inside an archive ('.tar#', say): rename it"
        return ""


def is_url(text: str) -> bool:
    """Whether a place is named as fsspec does, such as s3://bucket/folder."""
    return _URL.match(text) is not None


def is_text(name: str) -> bool:
    """Whether a name can be written as UTF-8; names of files can be any bytes."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_archive(name: str) -> bool:
    """Whether a file's name ends as that of an archive whose images can be read one by one."""
    return name.lower().endswith(ARCHIVE_ENDINGS)
