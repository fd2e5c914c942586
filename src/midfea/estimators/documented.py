"""Docstrings of estimators in one piece: what a class inherits is joined to what is its own.

The text of a parameter stands once, in the docstring of the dataclass that has the field. Its type and
its default come from the field.
"""

from __future__ import annotations

import inspect
import re
import types
from dataclasses import fields
from textwrap import dedent, indent
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

Class = TypeVar("Class", bound=type)

HEADING = re.compile(r"^(\w+)\n-{3,}\n", re.MULTILINE)
ENTRY = re.compile(r"^(\w[\w, ]*) : ", re.MULTILINE)


def documented(cls: Class) -> Class:
    """Join the sections "Parameters" and "Attributes" of a dataclass and of those it inherits from."""
    if not cls.__doc__:  # python -OO
        return cls
    texts: dict[str, dict[str, str]] = {"Parameters": {}, "Attributes": {}}
    for each in cls.__mro__:
        if "__dataclass_fields__" in vars(each):
            _, sections = _split(inspect.cleandoc(each.__doc__ or ""), HEADING)
            for title, entries in texts.items():
                for name, text in _split(sections.get(title, ""), ENTRY)[1].items():
                    entries.setdefault(name, text)
    start, sections = _split(inspect.cleandoc(cls.__doc__), HEADING)
    joined = {
        "Parameters": _parameters(cls, texts["Parameters"]),
        "Attributes": "".join(f"{name} : {text}\n" for name, text in texts["Attributes"].items()),
    }
    sections = joined | {title: body for title, body in sections.items() if title not in joined}
    whole = [f"{title}\n{'-' * len(title)}\n{body.rstrip()}\n" for title, body in sections.items()]
    cls.__doc__ = "\n".join([f"{start.rstrip()}\n", *whole])
    return cls


def _split(text: str, mark: re.Pattern[str]) -> tuple[str, dict[str, str]]:
    """What stands before the first mark, and what follows each, by its name."""
    start, *parts = mark.split(text)
    return start, {name: body.rstrip() for name, body in zip(parts[::2], parts[1::2], strict=True)}


def _parameters(cls: type, texts: dict[str, str]) -> str:
    """An entry for each text: name, type and default, then the text."""
    hints, lines = get_type_hints(cls), []
    defaults = {field.name: field.default for field in fields(cls)}
    for name, text in texts.items():
        first, _, others = text.partition("\n")
        body = "\n".join(filter(None, [first, dedent(others)]))
        lines.append(
            f"{name} : {_type(hints[name])}, default={_value(defaults[name])}\n{indent(body, '    ')}"
        )
    return "\n".join(lines)


def _type(hint: Any) -> str:
    """A type as one would say it."""
    kind, inside = get_origin(hint), get_args(hint)
    if kind in (Union, types.UnionType):
        *first, last = map(_type, inside)
        return f"{', '.join(first)} or {last}"
    if kind is Literal:
        values = ", ".join(map(_value, inside))
        return values if len(inside) == 1 else f"{{{values}}}"
    if kind is tuple:
        return (
            f"tuple of {_type(inside[0])}" if inside[-1] is ... else f"({', '.join(map(_type, inside))})"
        )
    return "None" if hint is type(None) else str((kind or hint).__name__)


def _value(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
