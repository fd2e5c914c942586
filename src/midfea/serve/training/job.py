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
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
from filelock import FileLock, Timeout

from midfea.datasets.folder import expected_reading
from midfea.estimators.classifier import MidFeaClassifier
from midfea.estimators.plan import expected_curve, expected_steps
from midfea.learning.curve import learning_curve
from midfea.learning.network.settings import NetworkSettings
from midfea.parallel import linear_algebra_threads
from midfea.progress import Plan, expect, reporting_to
from midfea.progress.remaining import Remaining
from midfea.report.page import milliseconds_per_image
from midfea.serve.errors import Refused
from midfea.serve.store.images import StoredImage, digest_of
from midfea.serve.store.workspace import Workspace
from midfea.serve.training.features import KeptFeatures
from midfea.serve.training.fitting import SEED, Fitted, check_classes, classifier, fit, fit_head
from midfea.serve.training.phases import Comparison, TrainingSettings
from midfea.serve.training.placing import Known, Trained, known_models, put_in_place, stay
from midfea.serve.training.record import CHAIN_DIGITS, TrainingRecord

REPORT_SECONDS = 0.2  # between two reports of progress
MAX_GROWTH = 1.5  # times the images that filters and words were learned from: then they are learned anew


class Phase(NamedTuple):
    """One of the models of a training."""

    settings: TrainingSettings
    previous: Known | None
    plan: Plan  # the steps to come, with their seconds


def train(
    workspace: Workspace,
    settings: TrainingSettings,
    send: Callable[..., None],
    network: NetworkSettings | None = None,
) -> None:
    """Train on all images of a workspace, and put each model in its place as soon as it is there.

    send : gets what the server is told: `phase`, the number of the one that begins; `trained`, the
        number of one that has ended: its model is in its place
    network : settings of fine-tuning; None: the usual ones
    """
    try:
        with FileLock(workspace.training_lock, blocking=False):
            _train(workspace, settings, send, network)
    except Timeout:
        raise Refused(
            "a training of this workspace is under way in another program: wait for its end"
        ) from None


def _train(
    workspace: Workspace,
    settings: TrainingSettings,
    send: Callable[..., None],
    network: NetworkSettings | None,
) -> None:
    images = workspace.images.all()
    check_classes(images)
    phases = [_phase(workspace, each, images, network) for each in settings.phases()]
    expect(lambda: [step for phase in phases for step in phase.plan])
    before: Trained | None = None
    for number, phase in enumerate(phases):
        if before is not None:  # labels may have been corrected meanwhile
            workspace.watch.refresh(closely=True)
        send(phase=number)
        before = _train_phase(workspace, phase, before, network)
        send(trained=number)


def _phase(
    workspace: Workspace,
    settings: TrainingSettings,
    images: Sequence[StoredImage],
    network: NetworkSettings | None,
) -> Phase:
    model = classifier(settings, network)
    previous = _previous(workspace, settings, model, len(images))
    n_new = None
    if previous is not None:
        kept = KeptFeatures(workspace.features_folder, previous.record.chain)
        n_new = sum(image.id not in kept.places for image in images)
    return Phase(settings, previous, _plan(workspace, model, images, n_new))


def _train_phase(
    workspace: Workspace, phase: Phase, before: Trained | None, network: NetworkSettings | None
) -> Trained:
    """Train the model of a phase; the one of the phase before stays if this one is clearly worse."""
    begun = time.perf_counter()
    settings, previous = phase.settings, phase.previous
    images = workspace.images.all()
    chain = secrets.token_hex(CHAIN_DIGITS // 2) if previous is None else previous.record.chain
    features = KeptFeatures(workspace.features_folder, chain)
    fresh = classifier(settings, network)
    if previous is None:
        fitted = fit(workspace, fresh, images, features)
    else:
        n_learned_from = previous.record.n_learned_from
        fitted = fit_head(workspace, fresh, images, features, previous.path, n_learned_from)
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
    if before is not None and (comparison := _comparison(settings, fitted, before)) is not None:
        record = replace(record, compared=comparison)
        if comparison.is_clearly_worse:
            return stay(workspace, before, comparison)
    id = put_in_place(workspace, model, record, before)
    labels = {image.id: image.label for image in fitted.images}
    return Trained(record, id, labels, fitted.correct())


def _comparison(settings: TrainingSettings, fitted: Fitted, before: Trained) -> Comparison | None:
    """Of two phases; None if no image was in the validation of both with the same label."""
    assert before.record.settings is not None
    same = {image.id for image in fitted.images if before.labels.get(image.id) == image.label}
    correct = {id: value for id, value in fitted.correct().items() if id in same}
    other_preset = before.record.settings.preset
    found = Comparison.of(settings.preset, correct, other_preset, before.correct)
    return found if found.images else None


def _previous(
    workspace: Workspace, settings: TrainingSettings, model: MidFeaClassifier, n_images: int
) -> Known | None:
    """The training whose filters and words are used again; None if they are to be learned.

    They are learned without labels: those of most of the images are as good as those of all. A network
    is trained from the images themselves: nothing is gained by keeping features.
    """
    if model.fine_tunes():
        return None
    for known in known_models(workspace):
        record = known.record
        same = record.settings is not None and record.settings.preset == settings.preset
        if same and record.chain and n_images < MAX_GROWTH * record.n_learned_from:
            return known
    return None


def _plan(
    workspace: Workspace, model: MidFeaClassifier, images: Sequence[StoredImage], n_new: int | None
) -> Plan:
    """The steps of a phase, with their seconds."""
    read = images if n_new is None else images[:n_new]
    n_classes = len({image.label for image in images})
    return [
        *expected_reading([workspace.images.path(image) for image in read]),
        *expected_steps(model, len(images), n_classes, n_new=n_new),
        *expected_curve(len(images), n_classes),
    ]


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
            train(workspace, settings, send)
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
