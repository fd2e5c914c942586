"""Training, in a process of its own: `python -m midfea.serve.training.job WORKSPACE SETTINGS`.

The server stays quick, and cancelling is certain. What is under way is told on standard output, a JSON
object a line. When standard input ends, whoever started this is gone, and so are we.
"""

from __future__ import annotations

import copy
import json
import os
import secrets
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from midfea import MidFeaClassifier, load
from midfea.datasets.folder import Photo, read_photos
from midfea.estimators.finetuned import wanted
from midfea.learning.validation import learning_curve
from midfea.parallel import linear_algebra_threads
from midfea.pictures.images import Images
from midfea.progress import reporting_to
from midfea.report.facts import milliseconds_per_image
from midfea.report.held_out import held_out_answers
from midfea.serve.errors import Refused
from midfea.serve.store.index import StoredImage
from midfea.serve.store.lock import Lock
from midfea.serve.store.workspace import Workspace
from midfea.serve.training.features import KeptFeatures, forget_other_chains
from midfea.serve.training.results import (
    Results,
    file_id,
    forget_other_results,
    read_results,
    write_results,
)
from midfea.serve.training.steps import Steps, Told, expected

SEED = 0
GROWN = 1.5  # times the images that filters and words were learned from: then they are learned anew
N_TIMED = 16
MOST_KEPT = 1_000_000_000  # bytes of features that are kept only to show similar images


@dataclass(frozen=True)
class Settings:
    """What the user chooses."""

    preset: str = "fast"
    neurons: int = 0
    finetune: bool = False


class Fitted(NamedTuple):
    """A trained classifier, the images it learned from, and the chain its features belong to."""

    model: Any
    images: list[StoredImage]
    pixels: list[str]
    chain: str
    learned_from: int  # images, when filters and words were learned
    samples: list[Any]  # some images as the model takes them


def train(workspace: Workspace, settings: Settings, tell: Told) -> str:
    """Train on all images of a workspace and put the model in its place; the model's id."""
    lock = Lock(workspace.hidden / "training.lock")
    if not lock.try_acquire():
        raise Refused("a training of this workspace is under way in another program: wait for its end")
    begun = time.perf_counter()
    images = workspace.all_images()
    check_classes(images)
    chain, previous = _kept_chain(workspace, settings, len(images))
    kept = KeptFeatures(workspace.hidden / "features", chain)
    n_new = sum(image.id not in kept.places for image in images)
    n_classes = len({image.label for image in images})
    tuned = wanted(_classifier(settings).finetune)
    seconds = expected(
        len(images), n_new, n_classes, settings.preset, settings.neurons, tuned, previous is None
    )
    with reporting_to(Steps(seconds, tell).report):
        if previous is None:
            fitted = _fit(workspace, settings, images, chain)
            features = fitted.model.training_features_
            if not tuned or features.nbytes <= MOST_KEPT:
                kept.add([image.id for image in fitted.images], fitted.pixels, features)
        else:
            fitted = _fit_again(workspace, settings, images, kept, previous)
        model = fitted.model
        labels = np.array([image.label for image in fitted.images])
        found = held_out_answers(model, labels, SEED, fitted.pixels)
        y = np.searchsorted(model.classes_, labels)
        curve = learning_curve(model.training_features_, y, model.C_, SEED)
    interval = found.interval
    accuracy = {"value": interval.accuracy, "low": interval.low, "high": interval.high}
    about = {
        "name": "model.midfea",
        "opened": False,
        "trained": datetime.now().astimezone().isoformat(timespec="seconds"),
        "classes": [str(name) for name in model.classes_],
        "images": len(fitted.images),
        "left_out": len(images) - len(fitted.images),
        "seconds": round(time.perf_counter() - begun, 1),
        "accuracy": accuracy | {"n": len(found.indices), "how": found.how}
        if len(found.indices)
        else None,
        "ms_per_image": round(milliseconds_per_image(model, fitted.samples), 2),
        "settings": asdict(settings),
        "chain": chain,
        "learned_from": fitted.learned_from,
        "digest": workspace.digest(images),
        "curve": asdict(curve),
    }
    results = Results(
        about,
        [image.id for image in fitted.images],
        y.astype(np.int32),
        found.indices.astype(np.int32),
        found.predicted.astype(np.int32),
        found.probabilities.astype(np.float32),
    )
    return _put_in_place(workspace, model, results)


def check_classes(images: Sequence[StoredImage]) -> None:
    """`Refused`, saying what is missing, if there is nothing to tell apart."""
    n_classes = len({image.label for image in images})
    if n_classes < 2:
        has = "one class with images" if n_classes else "no images yet"
        raise Refused(f"two classes with images are needed to train, and there is {has}: add some")


def _classifier(settings: Settings) -> Any:
    more = {"finetune": True} if settings.finetune else {}  # a preset may ask for it too
    model = MidFeaClassifier(
        preset=settings.preset,
        C="cv",
        selectivity=settings.neurons or None,
        random_state=SEED,
        **more,
    )
    model.keep_features = True
    return model


def _kept_chain(workspace: Workspace, settings: Settings, n_images: int) -> tuple[str, Any]:
    """The chain to use, and the model that has it; a new name and None if it is to be learned.

    Filters and words are learned without labels: those of most of the images are as good as those of
    all. A network is trained from the images themselves: nothing is gained by keeping features.
    """
    new = secrets.token_hex(8), None
    try:
        results = read_results(workspace.hidden / "results", file_id(workspace.model_file))
        if results is None or results.about["opened"] or wanted(_classifier(settings).finetune):
            return new
        about = results.about
        if about["settings"]["preset"] != settings.preset or n_images >= GROWN * about["learned_from"]:
            return new
        previous = load(workspace.model_file)
        return about["chain"], (previous, about["learned_from"])
    except (OSError, ValueError, KeyError):
        return new


def _fit(workspace: Workspace, settings: Settings, images: list[StoredImage], chain: str) -> Fitted:
    model = _classifier(settings)
    photos, used = _read(workspace, model, images)
    check_classes(used)
    model.fit([photo.grey for photo in photos], [image.label for image in used])
    pixels = [photo.hash.hex()[:20] for photo in photos]
    samples = [photo.grey for photo in photos[:N_TIMED]]
    return Fitted(model, used, pixels, chain, len(used), samples)


def _fit_again(
    workspace: Workspace,
    settings: Settings,
    images: list[StoredImage],
    kept: KeptFeatures,
    previous: tuple[Any, int],
) -> Fitted:
    """A classifier with the filters and words of the one before; features of new images only."""
    fresh, (old, learned_from) = _classifier(settings), previous
    model = copy.copy(old)
    model.keep_features = True
    for name in ("C", "selectivity", "finetune"):
        setattr(model, name, getattr(fresh, name))
    model.settings_ = old.settings_ | {
        name: getattr(fresh, name) for name in ("C", "selectivity", "finetune")
    }
    model.network_, model.network_weights_ = None, None
    new = [image for image in images if image.id not in kept.places]
    photos, used = _read(workspace, model, new)
    if photos:
        features = model._features(Images([photo.grey for photo in photos]))
        kept.add([image.id for image in used], [p.hash.hex()[:20] for p in photos], features)
    images = [image for image in images if image.id in kept.places]
    check_classes(images)
    model.training_features_ = kept.rows([image.id for image in images])
    numbers = model._encode_labels([image.label for image in images], len(images))
    model._fit_svm(model.training_features_, numbers)
    samples = [photo.grey for photo in (photos or _read(workspace, model, images[:N_TIMED])[0])]
    pixels = [kept.places[image.id].pixels for image in images]
    return Fitted(model, images, pixels, kept.folder.name, learned_from, samples[:N_TIMED])


def _read(
    workspace: Workspace, model: Any, images: list[StoredImage]
) -> tuple[list[Photo], list[StoredImage]]:
    """The images that can be used: others were put there by hand, or are gone by now."""
    by_path = {workspace.path(image): image for image in images}
    max_side = getattr(model, "settings_", model.get_params())["max_side"]
    photos, _ = read_photos(list(by_path), max_side, model.min_side)
    return photos, [by_path[photo.path] for photo in photos]


def _put_in_place(workspace: Workspace, model: Any, results: Results) -> str:
    """One rename makes model and results the current ones; before it, nothing has changed."""
    temporary = workspace.incoming.new()
    model.save(temporary)
    id = file_id(temporary)
    write_results(workspace.hidden / "results", id, results)
    workspace.replace_model(temporary)
    forget_other_results(workspace.hidden / "results", id)
    forget_other_chains(workspace.hidden / "features", results.about["chain"])
    return id


def main() -> None:
    """Train as the arguments say, and tell how it goes."""
    folder, settings = Path(sys.argv[1]), Settings(**json.loads(sys.argv[2]))
    threading.Thread(target=_end_with_the_server, daemon=True).start()

    def say(**line: Any) -> None:
        print(json.dumps(line), flush=True)

    def tell(step: str, fraction: float) -> None:
        say(step=step, fraction=fraction)

    workspace = Workspace(folder)
    try:
        # Linear algebra with several threads stands still whenever another program has one of the cores.
        with linear_algebra_threads(1):
            say(model=train(workspace, settings, tell))
    except (ValueError, OSError, ImportError, MemoryError) as error:
        say(error=" ".join(str(error).split()) or type(error).__name__)
        sys.exit(1)
    finally:
        workspace.close()


def _end_with_the_server() -> None:
    while os.read(0, 1024):
        pass
    os._exit(1)  # what is unfinished is swept at the next start


if __name__ == "__main__":
    main()
