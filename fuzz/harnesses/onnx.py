"""Damaged exported files: a ValueError in one line, or a classifier that works."""

from __future__ import annotations

import json
from functools import cache
from random import Random

import numpy as np
import onnx

from harness import one_line
from midfea import checksum
from midfea.export import to_onnx
from midfea.export.runtime import METADATA_KEY, Description, OnnxClassifier
from models import IMAGE, check_probabilities, small_classifier
from mutate import VALUES, changed_value, flipped, mutated
from scratch import note


def case(random: Random) -> None:
    """A description alone, a description within a file, or a file with damage."""
    what = random.random()
    if what < 0.5:
        _describe(_changed_text(random))
    elif what < 0.7:
        replay(_with_description(_changed_text(random)))
    elif what < 0.9:
        replay(flipped(random, _file()))
    else:
        replay(mutated(random, _file()))


def replay(content: bytes) -> None:
    """Refused, or it answers with probabilities; an answer may also end with a ValueError."""
    path = note(content).with_suffix(".onnx")
    path.write_bytes(content)
    try:
        model = OnnxClassifier(path, n_jobs=1)
        answers = model.predict_proba([IMAGE])
    except ValueError as error:
        one_line(error)
        return
    check_probabilities(answers, 1, len(model.classes_))


def warm_up() -> None:
    """Export, and run once."""
    replay(_file())


def _describe(text: str) -> None:
    note(text)
    try:
        description = Description.from_json(text)
    except ValueError as error:
        one_line(error)
        return
    assert description.max_side is None or description.max_side > 0, description.max_side
    assert description.min_side > 0, description.min_side
    assert isinstance(description.classes, np.ndarray) and description.classes.ndim == 1


@cache
def _model() -> onnx.ModelProto:
    return to_onnx(small_classifier())


@cache
def _file() -> bytes:
    return bytes(_model().SerializeToString())


@cache
def _text() -> str:
    text = next(each.value for each in _model().metadata_props if each.key == METADATA_KEY)
    return json.dumps(json.loads(text) | {"checksum": checksum.EMPTY})


def _changed_text(random: Random) -> str:
    if random.random() < 0.1:
        return json.dumps(random.choice(VALUES))
    if random.random() < 0.2:
        return mutated(random, _text().encode()).decode("utf-8", "replace")
    return json.dumps(changed_value(random, json.loads(_text())))  # the damage may be in the checksum


def _with_description(text: str) -> bytes:
    changed = onnx.ModelProto()
    changed.CopyFrom(_model())
    for each in changed.metadata_props:
        if each.key == METADATA_KEY:
            each.value = text.encode("utf-8", "replace").decode()
    content = bytes(changed.SerializeToString())
    return checksum.seal(content) if checksum.EMPTY.encode() in content else content
