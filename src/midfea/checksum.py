"""A file that holds the SHA-256 of all its other bytes: damage is noticed, whoever reads it.

The file is written with `EMPTY` somewhere in it, and `seal` puts the digest there. It protects from
damage, not from people: whoever changes a file can seal it anew.
"""

from __future__ import annotations

import hashlib
import re

EMPTY = "sha256:" + 64 * "0"
_SEAL = re.compile(rb"sha256:[0-9a-f]{64}")


def seal(content: bytes) -> bytes:
    """The content with the digest in the place of the first `EMPTY`.

    Examples
    --------
    >>> content = seal(f"some text, {EMPTY}, more text".encode())
    >>> is_sound(content), is_sound(content.replace(b"more", b"less")), is_sound(b"no seal")
    (True, False, None)
    """
    start = content.index(EMPTY.encode())
    return content[:start] + _digest(content, start) + content[start + len(EMPTY) :]


def is_sound(content: bytes) -> bool | None:
    """Whether the content is what was sealed; None if it holds no seal."""
    found = _SEAL.search(content)
    return None if found is None else found.group() == _digest(content, found.start())


def _digest(content: bytes, start: int) -> bytes:
    """Of all bytes, with `EMPTY` at that place."""
    view = memoryview(content)
    digest = hashlib.sha256(view[:start])
    digest.update(EMPTY.encode())
    digest.update(view[start + len(EMPTY) :])
    return b"sha256:" + digest.hexdigest().encode()
