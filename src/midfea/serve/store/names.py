"""Names of files and classes from outside. They become names in a folder, so a bad one is refused.

Nothing is mended in silence: who sends `../x` shall know that it was not taken.
"""

from __future__ import annotations

import unicodedata

from midfea.serve.errors import Refused

MOST_CHARACTERS = 100
MOST_BYTES = 200  # file systems take 255, and a number may be added
TURNING = {chr(c) for c in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}  # text shown backwards


def class_name(sent: str) -> str:
    """The name of a class, without spaces around it."""
    return _checked(sent, "a class name")


def file_name(sent: str) -> str:
    """The name of a file."""
    return _checked(sent, "a file name")


def same(name: str) -> str:
    """Equal for names that some file systems cannot tell apart."""
    return unicodedata.normalize("NFC", name).casefold()


def shown(name: str, most: int = 60) -> str:
    """A name from outside inside a message."""
    safe = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name)
    return f"“{safe if len(safe) <= most else safe[: most - 1] + '…'}”"


def _checked(sent: str, what: str) -> str:
    name = unicodedata.normalize("NFC", sent).strip(" ")
    if not name:
        raise Refused(f"{what} is needed: the one sent is empty")
    if any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") or c in TURNING for c in name):
        raise Refused(f"{shown(name)}: {what} must not have control characters or NUL in it: rename it")
    if "/" in name or "\\" in name:
        raise Refused(f"{shown(name)}: {what} must not have / or \\ in it: rename it")
    if name.startswith("."):
        raise Refused(f"{shown(name)}: {what} must not begin with a dot: rename it")
    if len(name) > MOST_CHARACTERS or len(name.encode()) > MOST_BYTES:
        raise Refused(f"{shown(name)}: {what} must have {MOST_CHARACTERS} characters or fewer")
    return name
