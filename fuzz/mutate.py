"""Changes of bytes and of JSON values, drawn at random: small damage, and values at the edges."""

from __future__ import annotations

import copy
import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

MAX_BYTES = 200_000  # of a small file that grows: larger ones only take time
WHOLE_NUMBERS = (0, 1, 2, 3, 127, 128, 255, 256, 32767, 32768, 65535, 2**31 - 1, 2**31, 2**32 - 1)
VALUES: tuple[Any, ...] = (
    *(0, 1, -1, 2, 3, 7, 64, 255, 1000, 65536, 2**31 - 1, 2**31, 2**63, 10**30, -(10**30)),
    *(0.0, -0.0, 0.5, 1.5, -1.5, 1e-320, 1e-12, 1e12, 1e38, 1e308, float("nan"), float("inf")),
    *(None, True, False, "", "0", "auto", "x", "x" * 1000, "\0", "\ud800", "../..", "nan", "é\n"),
    *([], {}, [[]], [None], [1, 2], ["a", "b"], [0, 0], {"size": 2, "step": 2}, {"x": {}}),
)


def flipped(random: Random, content: bytes) -> bytes:
    """With one bit flipped."""
    damaged = bytearray(content)
    damaged[random.randrange(len(damaged))] ^= 1 << random.randrange(8)
    return bytes(damaged)


def mutated(random: Random, content: bytes, others: Sequence[bytes] = ()) -> bytes:
    """With one to six changes; `others` lend pieces."""
    most = max(MAX_BYTES, 2 * len(content))  # a large file is not cut by it
    for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
        if not content:
            return content
        content = random.choice(CHANGES)(random, content, others)[:most]
    return content


def _place(random: Random, content: bytes) -> int:
    """Headers matter most: every second place is among the first 64 bytes."""
    return random.randrange(min(len(content), 64) if random.random() < 0.5 else len(content))


def _flip(random: Random, content: bytes, _: Sequence[bytes]) -> bytes:
    damaged = bytearray(content)
    damaged[_place(random, content)] ^= 1 << random.randrange(8)
    return bytes(damaged)


def _set_byte(random: Random, content: bytes, _: Sequence[bytes]) -> bytes:
    damaged = bytearray(content)
    damaged[_place(random, content)] = random.choice((0, 1, 127, 128, 254, 255, random.randrange(256)))
    return bytes(damaged)


def _set_number(random: Random, content: bytes, _: Sequence[bytes]) -> bytes:
    """A length, a count or an offset, perhaps."""
    kind = random.choice(("<H", ">H", "<I", ">I"))
    most = 2 ** (8 * struct.calcsize(kind)) - 1
    number = struct.pack(kind, min(random.choice((*WHOLE_NUMBERS, len(content))), most))
    at = _place(random, content)
    return content[:at] + number + content[at + len(number) :]


def _insert(random: Random, content: bytes, _: Sequence[bytes]) -> bytes:
    at, size = _place(random, content), random.choice((1, 2, 4, 16, 300))
    piece = random.choice((random.randbytes(size), size * b"\0", size * b"\xff"))
    return content[:at] + piece + content[at:]


def _delete(random: Random, content: bytes, _: Sequence[bytes]) -> bytes:
    at = _place(random, content)
    return content[:at] + content[at + random.choice((1, 2, 4, 16, 64)) :]


def _cut(random: Random, content: bytes, _: Sequence[bytes]) -> bytes:
    return content[: random.randrange(len(content))]


def _repeat(random: Random, content: bytes, _: Sequence[bytes]) -> bytes:
    start = _place(random, content)
    piece = content[start : start + random.choice((4, 16, 64, 512))]
    return content[:start] + piece * random.choice((2, 3, 20)) + content[start:]


def _splice(random: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    other = random.choice(others) if others else content
    start = random.randrange(len(other))
    piece = other[start : start + random.choice((4, 16, 64, 4096))]
    at = _place(random, content)
    return content[:at] + piece + content[at + (len(piece) if random.random() < 0.5 else 0) :]


CHANGES: tuple[Callable[[Random, bytes, Sequence[bytes]], bytes], ...] = (
    *(_flip, _flip, _set_byte, _set_byte, _set_number, _set_number),
    *(_insert, _delete, _cut, _repeat, _splice),
)


def changed_value(random: Random, value: Any) -> Any:
    """A copy of a JSON value with something in it replaced, removed or added."""
    whole = [copy.deepcopy(value)]
    places = list(_places(whole))
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        holder, key = random.choice(places)
        if key not in (holder if isinstance(holder, dict) else range(len(holder))):
            continue  # it is gone
        what = random.random()
        if what < 0.1 and holder is not whole:
            del holder[key]
        elif what < 0.2 and isinstance(holder, dict):
            holder[random.choice(("x", "", "format", "__class__", key * 2))] = _other(
                random, holder[key]
            )
        else:
            holder[key] = _other(random, holder[key])
    return whole[0]


def _places(holder: Any) -> Any:
    keys = list(holder) if isinstance(holder, dict) else range(len(holder))
    for key in keys:
        yield holder, key
        if isinstance(holder[key], dict | list):
            yield from _places(holder[key])


def _other(random: Random, value: Any) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and random.random() < 0.5:
        return random.choice(
            (value + 1, value - 1, -value, value * 2, value * 1000, value / 3, str(value))
        )
    if isinstance(value, list) and value and random.random() < 0.5:
        return random.choice((value[:-1], value * 2, value[::-1], [*value, random.choice(VALUES)]))
    return copy.deepcopy(random.choice(VALUES))
