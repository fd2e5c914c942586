"""What a harness is: a function that tries one case, and what it needs."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

CORPUS = Path(__file__).parent / "corpus"
NAMES = ("images", "arrays", "search", "model", "onnx", "zip", "api", "command")


@dataclass(frozen=True)
class Harness:
    """A harness by its module's names.

    Attributes
    ----------
    case : tries one input; an AssertionError, or any other error, is a finding
    warm_up : what the first case must not pay for: compiling, fitting
    replay : tries a file of the corpus; None if there are none
    """

    case: Callable[[Random], None]
    warm_up: Callable[[], None]
    replay: Callable[[bytes], None] | None

    @classmethod
    def load(cls, name: str) -> Harness:
        """By its name, or that of any module with a function `case`."""
        module = importlib.import_module(f"harnesses.{name}" if name in NAMES else name)
        names = vars(module)
        return cls(names["case"], names.get("warm_up", lambda: None), names.get("replay"))


def random_of(name: str, seed: int, case: int) -> Random:
    """The random numbers of one case; they depend on nothing else."""
    return Random(f"{name}:{seed}:{case}")


def corpus(name: str) -> list[Path]:
    """Files that once broke something, or could have."""
    return sorted(path for path in (CORPUS / name).glob("*") if path.is_file())


def one_line(error: BaseException) -> None:
    """A refusal is one line that says something."""
    message = str(error)
    assert message.strip() and "\n" not in message, f"not one line: {message!r:.300}"
