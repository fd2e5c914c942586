"""Names of files and classes from outside. They become names in a folder, so a bad name is refused.

A bad name is never changed silently: the sender learns why it was refused.
"""

from __future__ import annotations

import unicodedata

from midfea.serve.errors import Refused

MAX_CHARACTERS = 100
MAX_BYTES = 200  # file systems allow 255, and an ending may be added
DIRECTION_MARKS = {
    chr(c) for c in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
}  # they show text backwards


def class_name(sent: str) -> str:
    """The name of a class, without spaces around it."""
    return _checked(sent, "a class name")


def file_name(sent: str) -> str:
    """The name of a file."""
    return _checked(sent, "a file name")


def folded(name: str) -> str:
    """Equal for names that some file systems cannot tell apart."""
    return unicodedata.normalize("NFC", name).casefold()


def quoted(name: str, max_characters: int = 60) -> str:
    """A name from outside, for a message."""
    safe = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name)
    return f"“{safe if len(safe) <= max_characters else safe[: max_characters - 1] + '…'}”"


def _checked(sent: str, what: str) -> str:
    name = unicodedata.normalize("NFC", sent).strip(" ")
    if not name:
        raise Refused(f"{what} is needed: the one sent is empty")
    if any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") or c in DIRECTION_MARKS for c in name):
        raise Refused(f"{quoted(name)}: {what} must not have control characters or NUL in it: rename it")
    if "/" in name or "\\" in name:
        raise Refused(f"{quoted(name)}: {what} must not have / or \\ in it: rename it")
    if name.startswith("."):
        raise Refused(f"{quoted(name)}: {what} must not begin with a dot: rename it")
    if len(name) > MAX_CHARACTERS or len(name.encode()) > MAX_BYTES:
        raise Refused(f"{quoted(name)}: {what} must have {MAX_CHARACTERS} characters or fewer")
    return name
