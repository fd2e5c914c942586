"""Training, in a process of its own: `python -m midfea.serve.training.job WORKSPACE SETTINGS`.

The server stays quick, and cancelling is certain. Progress goes to standard output, a JSON object a
line. The process ends when standard input does: then the server that started it is gone.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import threading
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from midfea.datasets.folder import Photo, expected_reading, read_photos
from midfea.datasets.series import Series, suggest_groups
from midfea.estimators.classifier import MidFeaClassifier
from midfea.estimators.plan import expected_curve, expected_steps
from midfea.learning.curve import learning_curve
from midfea.learning.folds import join_groups
from midfea.parallel import linear_algebra_threads
from midfea.pictures.likeness import fingerprints, near_duplicates
from midfea.pictures.picture import Picture
from midfea.progress import Plan, expect, reporting_to
from midfea.progress.remaining import Remaining
from midfea.report.page import milliseconds_per_image
from midfea.serve.errors import Refused
from midfea.serve.store.files import ID_DIGITS, file_id
from midfea.serve.store.images import StoredImage, digest_of
from midfea.serve.store.model_file import load_classifier
from midfea.serve.store.workspace import Workspace
from midfea.serve.training.features import KeptFeatures, forget_other_chains
from midfea.serve.training.record import (
    CHAIN_DIGITS,
    TrainingRecord,
    TrainingSettings,
    forget_other_records,
)

SEED = 0
MAX_GROWTH = 1.5  # times the images that filters and words were learned from: then they are learned anew
N_TIMED_IMAGES = 16
REPORT_SECONDS = 0.2  # between two reports of progress
MAX_FEATURE_BYTES = 1_000_000_000  # of features that are kept only to show similar images


class Fitted(NamedTuple):
    """A trained classifier, the images it was trained on, and some of them as the model takes them."""

    model: MidFeaClassifier
    images: list[StoredImage]
    series: Series | None
    samples: list[Picture]
    n_learned_from: int  # images, when filters and words were learned


def train(workspace: Workspace, settings: TrainingSettings) -> str:
    """Train on all images of a workspace and put the model in its place; returns the model's id."""
    try:
        with FileLock(workspace.training_lock, blocking=False):
            return _train(workspace, settings)
    except Timeout:
        raise Refused(
            "a training of this workspace is under way in another program: wait for its end"
        ) from None


def check_classes(images: Sequence[StoredImage]) -> None:
    """`Refused`, saying what is missing, if there are not two classes with images."""
    n_classes = len({image.label for image in images})
    if n_classes < 2:
        has = "one class with images" if n_classes else "no images yet"
        raise Refused(f"two classes with images are needed to train, and there is {has}: add some")


def _train(workspace: Workspace, settings: TrainingSettings) -> str:
    begun = time.perf_counter()
    images = workspace.images.all()
    check_classes(images)
    previous = _previous(workspace, settings, len(images))
    chain = secrets.token_hex(CHAIN_DIGITS // 2) if previous is None else previous.chain
    features = KeptFeatures(workspace.features_folder, chain)
    n_new = None if previous is None else sum(image.id not in features.places for image in images)
    expect(lambda: _steps(workspace, settings, images, n_new))
    if previous is None:
        fitted = _fit(workspace, settings, images, features)
    else:
        fitted = _fit_head(workspace, settings, images, features, previous.n_learned_from)
    model = fitted.model
    y = np.searchsorted(model.classes_, [image.label for image in fitted.images])
    kept, groups, weights = model.training_features_, model.training_groups_, model.class_weights_
    curve = learning_curve(kept, y, model.head_.C, SEED, groups, class_weights=weights)
    record = TrainingRecord(
        name="model.midfea",
        trained=datetime.now().astimezone(),
        ids=tuple(image.id for image in fitted.images),
        n_left_out=len(images) - len(fitted.images),
        series=str(fitted.series or ""),
        seconds=round(time.perf_counter() - begun, 1),
        ms_per_image=round(milliseconds_per_image(model, fitted.samples), 2),
        settings=settings,
        chain=chain,
        n_learned_from=fitted.n_learned_from,
        digest=digest_of(images),
        curve=curve,
    )
    return _put_in_place(workspace, model, record)


def _steps(
    workspace: Workspace, settings: TrainingSettings, images: Sequence[StoredImage], n_new: int | None
) -> Plan:
    """The steps to come, with their seconds."""
    read = images if n_new is None else images[:n_new]
    n_classes = len({image.label for image in images})
    return [
        *expected_reading([workspace.images.path(image) for image in read]),
        *expected_steps(_classifier(settings), len(images), n_classes, n_new=n_new),
        *expected_curve(len(images), n_classes),
    ]


def _classifier(settings: TrainingSettings) -> MidFeaClassifier:
    model = MidFeaClassifier(
        preset=settings.preset,
        C="auto",
        selectivity=settings.neurons or None,
        random_state=SEED,
        keep_features=True,
    )
    if settings.finetune:  # a preset may ask for it too
        model.finetune = True
    return model


def _previous(workspace: Workspace, settings: TrainingSettings, n_images: int) -> TrainingRecord | None:
    """The training whose filters and words are used again; None if they are to be learned.

    They are learned without labels: those of most of the images are as good as those of all. A network
    is trained from the images themselves: nothing is gained by keeping features.
    """
    try:
        record = TrainingRecord.read(workspace.results_folder, file_id(workspace.model_file.path))
    except OSError:
        return None
    if record is None or record.settings is None or not record.chain:
        return None
    if _classifier(settings).fine_tunes():
        return None
    same = record.settings.preset == settings.preset
    return record if same and n_images < MAX_GROWTH * record.n_learned_from else None


def _fit(
    workspace: Workspace, settings: TrainingSettings, images: list[StoredImage], features: KeptFeatures
) -> Fitted:
    """A new classifier; it learns filters and words too."""
    model = _classifier(settings)
    photos, used = _read(workspace, images, model)
    check_classes(used)
    pictures = [photo.picture for photo in photos]
    prints = fingerprints(pictures)
    series = _series(workspace, used, prints)
    model.fit(pictures, [image.label for image in used], series and series.groups)
    if model.network_ is None or model.training_features_.nbytes <= MAX_FEATURE_BYTES:
        features.add([image.id for image in used], _digests(photos), prints, model.training_features_)
    return Fitted(model, used, series, pictures[:N_TIMED_IMAGES], len(used))


def _fit_head(
    workspace: Workspace,
    settings: TrainingSettings,
    images: list[StoredImage],
    features: KeptFeatures,
    n_learned_from: int,
) -> Fitted:
    """The classifier of before with a new head; features of new images only."""
    model, fresh = load_classifier(workspace.model_file.path), _classifier(settings)
    names = ("C", "selectivity", "finetune", "keep_features")
    model.set_params(**{name: getattr(fresh, name) for name in names})
    new = [image for image in images if image.id not in features.places]
    photos, used = _read(workspace, new, model)
    if photos:
        pictures = [photo.picture for photo in photos]
        rows = model.features(pictures)
        features.add([image.id for image in used], _digests(photos), fingerprints(pictures), rows)
    images = [image for image in images if image.id in features.places]
    check_classes(images)
    ids, labels = [image.id for image in images], [image.label for image in images]
    prints = features.prints(ids)
    equal = [features.places[id].pixels for id in ids]
    series = _series(workspace, images, prints)
    groups = join_groups(equal, near_duplicates(prints), series and series.groups)
    model.fit_head(features.rows(ids), labels, groups)
    timed = photos or _read(workspace, images[:N_TIMED_IMAGES], model)[0]
    samples = [photo.picture for photo in timed[:N_TIMED_IMAGES]]
    return Fitted(model, images, series, samples, n_learned_from)


def _series(
    workspace: Workspace, images: list[StoredImage], prints: NDArray[np.float32]
) -> Series | None:
    """The series that `midfea train` would find."""
    return suggest_groups([workspace.images.path(image) for image in images], prints)


def _digests(photos: Sequence[Photo]) -> list[str]:
    return [photo.picture.digest().hex()[:ID_DIGITS] for photo in photos]


def _read(
    workspace: Workspace, images: list[StoredImage], model: MidFeaClassifier
) -> tuple[list[Photo], list[StoredImage]]:
    """The images that can be used: others were put there by hand, or are gone by now."""
    by_path = {workspace.images.path(image): image for image in images}
    photos, _ = read_photos(list(by_path), model.max_side, model.min_side)
    return photos, [by_path[photo.path] for photo in photos]


def _put_in_place(workspace: Workspace, model: MidFeaClassifier, record: TrainingRecord) -> str:
    """One rename makes model and record current; before it, nothing has changed."""
    path = workspace.incoming.new()
    model.save(path)
    id = file_id(path)
    record.write(workspace.results_folder, id)
    workspace.model_file.replace(path)
    forget_other_records(workspace.results_folder, id)
    forget_other_chains(workspace.features_folder, record.chain)
    return id


def main() -> None:
    """Train as the arguments say, and report progress."""
    folder, settings = Path(sys.argv[1]), TrainingSettings(**json.loads(sys.argv[2]))
    threading.Thread(target=_end_with_the_server, daemon=True).start()

    def send(**message: str | float | None) -> None:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

    def send_progress() -> None:
        while not over.wait(REPORT_SECONDS):
            state = remaining.state()
            send(step=state.step, fraction=state.fraction, seconds_left=state.seconds_left)

    remaining, over = Remaining(), threading.Event()
    workspace = Workspace(folder)
    sender = threading.Thread(target=send_progress, daemon=True)
    sender.start()
    try:
        # Threads of linear algebra wait for each other whenever another program has one of the cores.
        with linear_algebra_threads(1), reporting_to(remaining.report, remaining.expect):
            id = train(workspace, settings)
        send(model=id)
    except (ValueError, OSError, ImportError, MemoryError) as error:
        send(error=" ".join(str(error).split()) or type(error).__name__)
        sys.exit(1)
    finally:
        over.set()
        sender.join()
        workspace.close()


def _end_with_the_server() -> None:
    while os.read(0, 1024):
        pass
    os._exit(1)  # unfinished files are removed at the next start


if __name__ == "__main__":
    main()
