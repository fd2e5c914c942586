"""What a workspace remembers of its images: labels that a person has checked, former names.

It cannot be made again, so it lies beside the images: `notes.json`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from midfea.files import replacing
from midfea.serve.store.files import Signature, is_id, read_json, signature


class Renamed(NamedTuple):
    """The name that a file got where its own was taken, and its own."""

    given: str
    own: str


class Notes:
    """One small file, read again when another process has changed it. Changes need the write lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._signature: Signature | None = None
        self._checked: frozenset[str] = frozenset()
        self._renamed: dict[str, Renamed] = {}

    @property
    def checked(self) -> frozenset[str]:
        """Ids of the images whose label a person has called right."""
        self._read()
        return self._checked

    def set_checked(self, id: str, checked: bool) -> None:
        """Remember, or forget, that a person has called the label of this image right."""
        if (id in self.checked) != checked:
            self._write(self._checked ^ {id}, self._renamed)

    def own_name(self, id: str, name: str) -> str:
        """The name that this image had before it met another file of the same name."""
        self._read()
        renamed = self._renamed.get(id)
        return renamed.own if renamed is not None and renamed.given == name else name

    def set_own_name(self, id: str, given: str, own: str) -> None:
        """Remember the image's own name; nothing to remember if it has that name."""
        self._read()
        others = {key: value for key, value in self._renamed.items() if key != id}
        renamed = others if given == own else others | {id: Renamed(given, own)}
        if renamed != self._renamed:
            self._write(self._checked, renamed)

    def _read(self) -> None:
        try:
            found = signature(self.path.stat())
            if found == self._signature:
                return
            self._checked, self._renamed = _parsed(read_json(self.path))
            self._signature = found
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            self._signature, self._checked, self._renamed = None, frozenset(), {}

    def _write(self, checked: frozenset[str], renamed: dict[str, Renamed]) -> None:
        content = json.dumps({"checked": sorted(checked), "renamed": renamed}, indent=1)
        with replacing(self.path) as temporary:
            temporary.write_text(content, encoding="utf-8")
        self._signature = None


def _parsed(content: dict[str, object]) -> tuple[frozenset[str], dict[str, Renamed]]:
    """ValueError and others for what this file cannot hold: names become names of files."""
    checked, renamed = content["checked"], content["renamed"]
    if not isinstance(checked, list) or not isinstance(renamed, dict):
        raise ValueError("not written by midfea")
    pairs = {id: Renamed(given, own) for id, (given, own) in renamed.items()}
    if not all(is_id(id) for id in (*checked, *pairs)):
        raise ValueError("not written by midfea")
    return frozenset(checked), {id: pair for id, pair in pairs.items() if _is_file_name(pair.own)}


def _is_file_name(name: object) -> bool:
    return isinstance(name, str) and name[:1] not in ("", ".") and not set(name) & {"/", "\\", "\0"}
