"""/api/classify, /api/explain: what the model predicts for an image, and why."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, File, Query, UploadFile
from numpy.typing import NDArray

from midfea.evidence import Explanation, Word
from midfea.explain.content import active_neurons, sum_of_parts, word_image
from midfea.learning.extractor import FeatureExtractor
from midfea.pictures.images import Images
from midfea.pictures.mosaic import data_uri
from midfea.pictures.picture import Picture
from midfea.pictures.reading import ImageError
from midfea.serve.api.body import MEGABYTE, form_body
from midfea.serve.api.current import LoadedModel
from midfea.serve.api.services import AddressDep, Services, ServicesDep
from midfea.serve.errors import Missing, Refused
from midfea.serve.store.decoding import open_pixels
from midfea.serve.store.workspace import Workspace
from midfea.serve.training.features import KeptFeatures
from midfea.view.colours import overlay, stage_drawings
from midfea.view.refusal import belonging_words

router = APIRouter(tags=["classify"])
IMAGE = form_body(64 * MEGABYTE, optional=True)  # instead, `id` may name an image of the workspace
UNKNOWN_SHARE = 0.02  # of the classes' own images that are called "none of these"
UNSURE_BELOW = 0.6  # probability of the predicted class
N_NEAREST = 6

Json = dict[str, Any]
ImageFile = Annotated[UploadFile | None, File()]
Answer = Callable[[LoadedModel, Picture], Json]


@router.post("/api/classify")
@IMAGE
async def classify(
    services: ServicesDep,
    address: AddressDep,
    file: ImageFile = None,
    id: str | None = None,
    explain: bool = False,
) -> Json:
    """What the model predicts for an image that is sent, or for one of the workspace."""
    answer = partial(_prediction, explain=explain)
    return await _answer(services, address, file, id, answer)


@router.post("/api/explain")
@IMAGE
async def explain(
    services: ServicesDep,
    address: AddressDep,
    file: ImageFile = None,
    id: str | None = None,
    label: Annotated[str | None, Query(alias="class")] = None,
) -> Json:
    """Evidence, words, neurons, stages and similar images for a class, or for the predicted one."""
    answer = partial(_explanation, services.workspace, label)
    return await _answer(services, address, file, id, answer)


async def _answer(
    services: Services, address: str, file: UploadFile | None, id: str | None, answer: Answer
) -> Json:
    """The answer for an image of a request (which is not kept) or of the workspace."""
    extractor = (await services.run("answer", services.current.need)).model.extractor_
    picture, size = await services.decode(address, _picture, services.workspace, extractor, file, id)
    work = partial(services.current.use, lambda loaded: answer(loaded, picture))
    try:
        return await services.run("answer", work) | size
    except ImageError as error:  # too small for a model that came meanwhile
        raise Refused(str(error)) from None


def _picture(
    workspace: Workspace, extractor: FeatureExtractor, file: UploadFile | None, id: str | None
) -> tuple[Picture, Json]:
    """The image as the model sees it, and its own size."""
    with ExitStack() as stack:
        if file is not None and id is None:
            received = workspace.incoming.receive(file.file, durable=False)
            path = stack.enter_context(received).path
        elif id is not None and file is None:
            path = workspace.images.path(workspace.images.find(id))
        else:
            raise Refused("send an image as “file”, or name one of the workspace by its id")
        pixels = stack.enter_context(open_pixels(path))
        size = {"width": pixels.shape[1], "height": pixels.shape[0]}
        return extractor.pictures(Images([pixels]))[0], size


def _prediction(loaded: LoadedModel, image: Picture, explain: bool) -> Json:
    """The probabilities, and where in the image the evidence lies if asked for."""
    begun = time.perf_counter()
    evidence = None
    if explain:
        explanation = loaded.model.explain(image)
        probabilities, belonging = explanation.probabilities, explanation.belonging
        evidence = data_uri(overlay(explanation.image, explanation.evidence))
    else:
        rows_of, belongings = loaded.model.predict_all([image])
        probabilities = rows_of[0]
        belonging = None if np.isnan(belongings[0]) else float(belongings[0])
    order = np.argsort(-probabilities, kind="stable")
    rows = [
        {"class": str(loaded.model.classes_[i]), "probability": round(float(probabilities[i]), 6)}
        for i in order
    ]
    return {
        "predicted": rows[0]["class"],
        "unsure": bool(probabilities[order[0]] < UNSURE_BELOW),
        "belonging": belonging,
        "none_of_these": belonging is not None and belonging <= UNKNOWN_SHARE,
        "belonging_text": "" if belonging is None else belonging_words(belonging),
        "probabilities": rows,
        "milliseconds": round(1e3 * (time.perf_counter() - begun), 1),
        "evidence": evidence,
    }


def _explanation(workspace: Workspace, label: str | None, loaded: LoadedModel, image: Picture) -> Json:
    """What led to the prediction, or what speaks for another class."""
    if label is not None and label not in loaded.model.classes_.astype(str):
        raise Missing(f"the model knows no class {label!r}: train again, or choose another")
    explanation = loaded.model.explain(image, label)
    return {
        "class": str(explanation.label),
        "predicted": str(explanation.predicted),
        "sum": sum_of_parts(explanation),
        "evidence": data_uri(overlay(explanation.image, explanation.evidence)),
        "image": data_uri(explanation.image),
        "stages": [
            {"name": name, "image": data_uri(pixels)}
            for name, pixels in stage_drawings(explanation.maps)
        ],
        "words_for": [_word(explanation, word) for word in explanation.words_for],
        "words_against": [_word(explanation, word) for word in explanation.words_against],
        "neurons": _neurons(explanation),
        "nearest": _nearest(workspace, loaded, explanation.features),
    }


def _word(explanation: Explanation, word: Word) -> Json:
    pixels, caption = word_image(explanation, word)
    return {
        "word": word.word,
        "contribution": round(word.contribution, 6),
        "caption": caption,
        "image": data_uri(pixels),
    }


def _neurons(explanation: Explanation) -> list[Json]:
    """The neurons with the strongest activations."""
    return [
        {
            "neuron": neuron.number,
            "activation": round(neuron.activation, 4),
            "contribution": round(neuron.contribution, 6),
            "class": neuron.serves,
        }
        for neuron in active_neurons(explanation)
    ]


def _nearest(workspace: Workspace, loaded: LoadedModel, features: NDArray[np.float32]) -> list[Json]:
    """The training images with the most similar features that are still in the workspace."""
    if not loaded.record.chain:
        return []
    known = KeptFeatures(workspace.features_folder, loaded.record.chain)
    nearest = known.nearest(features, loaded.record.ids, N_NEAREST)
    images = workspace.images.present(id for id, _ in nearest)
    return [
        {"id": id, "class": images[id].label, "name": images[id].name, "distance": round(distance, 4)}
        for id, distance in nearest
        if id in images
    ]
