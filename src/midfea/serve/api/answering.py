"""What the model says of one image, and why, as JSON with pictures in it."""

from __future__ import annotations

import base64
import io
import time
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from midfea.explain import Explanation, Word
from midfea.explain.overlay import crop, overlay
from midfea.explain.picture import caption_of, stage_pictures, sum_of_parts
from midfea.pictures.images import ImageError, Images, picture, read_image
from midfea.pictures.thumbnails import eight_bits
from midfea.serve.api.current import Current, CurrentModel
from midfea.serve.errors import Missing, Refused
from midfea.serve.store.incoming import read_header
from midfea.serve.store.workspace import Workspace
from midfea.serve.training.features import KeptFeatures

THRESHOLD = 0.6  # below it an answer is unsure
N_NEURONS = 8
N_NEAREST = 6


class Seen:
    """An image that was sent, or one of the workspace, reduced to what the model needs."""

    def __init__(self, workspace: Workspace, current: CurrentModel) -> None:
        self.workspace, self.current = workspace, current

    def sent(self, stream: IO[bytes]) -> tuple[Any, int, int]:
        """The image of a request, its width and height; the file is not kept."""
        with self.workspace.incoming.receive(stream, safe=False) as received:
            return self._read(received.path)

    def kept(self, id: str) -> tuple[Any, int, int]:
        """An image of the workspace."""
        return self._read(self.workspace.path(self.workspace.find(id)))

    def _read(self, path: Path) -> tuple[Any, int, int]:
        max_side = self.current.need().model.settings_["max_side"]
        with self.workspace.decoding:
            read_header(path)
            try:
                pixels = read_image(path)
                return picture(pixels, max_side), pixels.shape[1], pixels.shape[0]
            except ImageError as error:
                raise Refused(str(error).removeprefix(f"{path}: ")) from None


def classify(current: Current, image: Any, explain: bool) -> dict[str, Any]:
    """The answer, and where in the image the evidence for it lies if asked for."""
    begun = time.perf_counter()
    model, evidence = current.model, None
    try:
        if explain:
            found = model.explain(image)
            chances, evidence = found.probabilities, png(overlay(found.image, found.evidence))
        else:
            chances = model.predict_proba([image])[0]
    except ImageError as error:  # too small for this model
        raise Refused(str(error)) from None
    order = np.argsort(-chances, kind="stable")
    best, sure = str(model.classes_[order[0]]), float(chances[order[0]]) >= THRESHOLD
    return {
        "answer": best if sure else None,
        "best": best,
        "unsure": not sure,
        "probabilities": [
            {"class": str(model.classes_[i]), "probability": round(float(chances[i]), 6)} for i in order
        ],
        "milliseconds": round(1e3 * (time.perf_counter() - begun), 1),
        "evidence": evidence,
    }


def explain(workspace: Workspace, current: Current, image: Any, label: str | None) -> dict[str, Any]:
    """Everything that led to the answer, or that speaks for another class."""
    model = current.model
    if label is not None and label not in model.classes_.astype(str):
        raise Missing(f"the model knows no class {label!r}: train again, or choose another")
    try:
        found: Explanation = model.explain(image, label)
    except ImageError as error:
        raise Refused(str(error)) from None
    return {
        "class": str(found.label),
        "answer": str(found.answer),
        "sum": sum_of_parts(found),
        "evidence": png(overlay(found.image, found.evidence)),
        "image": png(found.image),
        "stages": [{"name": name, "image": png(pixels)} for name, pixels in stage_pictures(found)],
        "words_for": [_word(found, word) for word in found.words_for],
        "words_against": [_word(found, word) for word in found.words_against],
        "neurons": _neurons(found),
        "nearest": _nearest(workspace, current, image),
    }


def png(pixels: NDArray[Any]) -> str:
    """A picture as an address that holds it."""
    file = io.BytesIO()
    Image.fromarray(eight_bits(pixels)).save(file, "PNG", compress_level=3)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def _word(found: Explanation, word: Word) -> dict[str, Any]:
    return {
        "word": word.word,
        "contribution": round(word.contribution, 6),
        "caption": caption_of(word),
        "image": png(crop(found.image, word.boxes[0])),
    }


def _neurons(found: Explanation) -> list[dict[str, Any]]:
    if found.neurons is None:
        return []
    order = np.argsort(-found.neurons.activations, kind="stable")[:N_NEURONS]
    return [
        {
            "neuron": int(n) + 1,
            "activation": round(float(found.neurons.activations[n]), 4),
            "contribution": round(float(found.neurons.contributions[n]), 6),
            "class": str(found.classes[found.neurons.serves[n]]),
        }
        for n in order
    ]


def _nearest(workspace: Workspace, current: Current, image: Any) -> list[dict[str, Any]]:
    """The training images most like it, as far as they are still there."""
    about = current.results.about
    if "chain" not in about:
        return []
    kept = KeptFeatures(workspace.hidden / "features", about["chain"])
    features = current.model._features(Images([image]))[0]
    alike = []
    for id, distance in kept.nearest(features, current.results.ids, N_NEAREST):
        try:
            known = workspace.find(id)
        except Missing:
            continue
        alike.append(
            {"id": id, "class": known.label, "name": known.name, "distance": round(distance, 4)}
        )
    return alike
