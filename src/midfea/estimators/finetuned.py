"""The fine-tuned network beside the SVM: what held-out images say of both, then training on all.

The SVM sees fixed features of the whole image, the network a small copy of it, and they err on different
images: their answers are joined. How much each counts, the SVM and both classifiers of the network, and
whether mirrored copies help, is decided on a part of the training images that none has seen.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax

from midfea.engines import get_engine
from midfea.estimators.transformer import MidFea
from midfea.learning.network.model import SIDE, WINDOW, Network, square
from midfea.learning.svm import folds
from midfea.pictures.images import NEUTRAL, Images
from midfea.progress import track

N_FOLDS = 4  # one of which is held out
# Each in its turn if one has fewer images than this, whose weights are chance. Five hands of each, six
# draws: 284 errors in 5874 instead of 306 by one fold, at worst 66 of 979 instead of 85.
FEW = 20
# Copies seen, at least in all and of each image. A trial sees a quarter as many. In all that is two to
# three minutes on two cores, for up to 2,000 images. Few images of a class are also seen more often, in
# the time that the SVM does not take: 743 errors in 4036 hands instead of 800, from two of each.
LEAST, EACH, MORE_OFTEN = 32_000, 16, 2
N_FILTERS, N_WORDS = 16, 256
# Where a grid of cells was chosen each place counts: descriptors at every one of them, and in the time
# that takes seven tenths of the copies.
FEWER = 0.7
USUAL = np.array([1.0, 0.5, 0.5])  # weights of the SVM and of the network's two classifiers
# With one image of each class none is held out, and decision values of the SVM are a fiftieth to a
# hundredth as far apart as the network's. It is worth more, the more classes there are. Percent of other
# images of the training parts with SVM weights of 0, 1, 4, 40, 80: Caltech-101 (102 classes, two draws)
# 18.3, 18.4, 18.9, 23.1, 24.5; hands (10 classes, four draws) 67.2, 66.8, 66.0, 59.5, 55.2.
SINGLE = 0.008  # times the number of classes squared, for the SVM
UNUSUAL = 0.02  # times distance squared: log-likelihood that other weights must win, of all held out
# Likewise if groups are held out, of which there are few, each with much the same to say: the SVM's
# weight is told in its temperature, and a group counts as one image does. Sexes of AR, weights of one
# quarter's people for the others', mean of six kinds of networks: 23 errors instead of 27 in 700.
USUAL_OF_GROUPS, UNUSUAL_OF_GROUPS = np.array([1.0, 0.7, 0.2]), 0.5
ENOUGH = 6  # images of a class; copies of fewer are changed more
COLOURED = 3  # images of a class; the network sees fewer in grey
MOST_MOVED = 1.5  # shifts, scales and turns grow by no more than this, light by more
# Where a grid is far better (`choices.FAR`), the same things lie in the same places, and copies as usual
# take that away; but they help to tell the sexes of new people (72 errors of 1400 instead of 79). Joined
# to the SVM, errors in 1200 answers of AR faces and 2478 of Yale B, from 3 and 10 images of each person:
# 8.5 and 23.5 if moved half as much, 6.0 and 23.0 a quarter as much, 6.5 and 21.0 if relit half as much
# besides, 4.0 and 21.0 with these.
MOVES_IN_PLACE, LIGHT_IN_PLACE = 0.1, 0.5
MIRRORED = (False, True)  # what is tried: copies as the image is, or half of them its mirror image
# Log-likelihood, of all held out, that mirrored copies must win. By chance ten hands may speak for them,
# which with ten of each have 240 and 178 errors in 3716 instead of 107 and 88.
MIRROR_WORTH = 3.0


Answers = Sequence[NDArray[Any]] | NDArray[Any]  # of the SVM and of both classifiers, (3, n, n_classes)


class Tuned(NamedTuple):
    """What `fit_network` found."""

    network: Network
    weights: NDArray[np.float64]  # (3,), of the SVM's decision values and of log-probabilities
    held_out: NDArray[np.intp]
    scores: NDArray[np.float64]  # of those held out, joined


def wanted(finetune: bool | str) -> bool:
    """Whether to train a network. ImportError, saying what to install, if that is sure but cannot be.

    "auto" means where PyTorch is installed; a warning says so if it is not.
    """
    if finetune not in (True, False, "auto"):
        raise ValueError(f'finetune is True, False or "auto", got {finetune!r}')
    if not finetune:
        return False
    try:
        importlib.import_module("midfea.learning.network.training")
    except ImportError as error:
        if finetune != "auto":
            raise
        warnings.warn(f"no fine-tuning, the model will be less accurate: {error}", stacklevel=3)
        return False
    return True


def fit_network(
    model: Any,
    images: Images,
    y: NDArray[np.intp],
    margins: NDArray[Any],
    seed: int,
    groups: NDArray[Any] | None = None,
    in_place: bool = False,
) -> Tuned:
    """Train the network of a classifier.

    margins : the SVM's scores of the training images, (n, n_classes), each when it was held out
    groups : images of one group are held out together
    in_place : the same things lie in the same places of all images; copies are changed less
    """
    from midfea.learning.network import training as finetune

    n_threads = model._n_threads()
    device = str(model._engine().device) if model.engine == "torch" else "cpu"
    squares = small_copies(model, images)
    unsupervised = MidFea(
        n_filters=N_FILTERS,
        pairs=False,
        window=WINDOW,
        n_words=min(N_WORDS, 50 * len(squares)),
        projection=None,
        max_side=SIDE,
        n_jobs=model.n_jobs,
        random_state=seed,
    ).fit(squares[:, 0])
    start = finetune.Start(unsupervised.filters_, unsupervised.codebook_)
    aligned = not isinstance(model.settings_["partition"], str)  # a grid of cells: `choices`
    per_class = len(y) / len(np.unique(y))
    fewer = FEWER if aligned else 1.0
    n_seen = round(fewer * copies_seen(len(y), per_class))
    n_tried = round(fewer * copies_seen(len(y)) / 2 / len(MIRRORED))
    light = how_changed(per_class)
    moves = min(light, MOST_MOVED)
    if in_place:
        light, moves = LIGHT_IN_PLACE, MOVES_IN_PLACE

    colour = per_class >= COLOURED and bool((squares[:, 1:] != NEUTRAL).any())

    def train(chosen: NDArray[np.intp], mirror: bool, n_seen: int, what: str) -> Network:
        return finetune.train(
            squares[chosen, : 3 if colour else 1],
            y[chosen],
            start,
            mirror=mirror,
            light=light,
            moves=moves,
            aligned=aligned,
            n_seen=n_seen,
            seed=seed,
            n_threads=n_threads,
            device=device,
            what=what,
        )

    everyone = np.arange(len(y))
    parts = folds(y, N_FOLDS, seed, groups)
    if not parts:  # too few images to learn from which copies help
        network = train(everyone, False, n_seen, "fine-tuning")
        by_svm = 1.0 if per_class > 1 else SINGLE * margins.shape[1] ** 2
        return Tuned(network, USUAL * [by_svm, 1, 1], everyone[:0], margins[:0])

    def held_out_answers(part: int, mirror: bool, what: str) -> NDArray[np.float64]:
        known, held_out = parts[part]
        network = train(known, mirror, n_tried, f"fine-tuning, {what}")
        return np.stack([margins[held_out], *network_answers(network, model, squares[held_out])])

    def joint(answers: NDArray[np.float64], held_out: NDArray[np.intp]) -> Any:
        together = None if groups is None else groups[held_out]
        return joint_weights(answers, y[held_out], together, model.temperature_)

    held_out = parts[0][1]
    n_counted = len(held_out) if groups is None else len(np.unique(groups[held_out]))
    trials = []
    for i, mirror in enumerate(MIRRORED):
        answers = held_out_answers(0, mirror, f"trial {i + 1}")
        joined = join(answers, joint(answers, held_out))
        likely = -_loss(joined, y[held_out]) * n_counted - MIRROR_WORTH * mirror
        trials.append((likely, mirror, answers))
    _, mirror, answers = max(trials, key=lambda trial: trial[0])
    if len(held_out) < FEW:
        others = [held_out_answers(i, mirror, f"part {i + 1}") for i in range(1, len(parts))]
        held_out = np.concatenate([part for _, part in parts])
        order = np.argsort(held_out)
        held_out, answers = held_out[order], np.concatenate([answers, *others], axis=1)[:, order]
    weights = joint(answers, held_out)
    network = train(everyone, mirror, n_seen, "fine-tuning")
    return Tuned(network, weights, held_out, join(answers, weights))


def how_changed(per_class: float) -> float:
    """How much copies are changed where there are so many images of a class: 3 for few, 1 for many.

    One or two images do not show what light and place may do. Hands of the training part that were not
    learned from, four draws: 63.0 and 76.9 percent from 1 and 2 grey images; 55.5 and 68.9 if changed as
    usual, 46.0 and 67.6 if in colour besides.
    """
    return min(max(ENOUGH / per_class, 1.0), 3.0)


def copies_seen(n_images: int, per_class: float = ENOUGH) -> int:
    """How many copies of images the network sees in training, if there are so many of each class."""
    return max(EACH * n_images, round(LEAST * min(how_changed(per_class), MORE_OFTEN)))


def small_copies(model: Any, images: Images) -> NDArray[np.uint8]:
    """All images as the network sees them, (n, 3, SIDE, SIDE): grey and colours."""
    squares = np.full((len(images), 3, SIDE, SIDE), NEUTRAL, dtype=np.uint8)

    def one(i: int) -> Any:
        colours = images.opponents(i, model.settings_["max_side"])
        return [square(plane) for plane in (model._checked_grey(images, i), *colours)]

    for i, (grey, *colours) in enumerate(
        track(model._in_parallel(one, range(len(images))), "small copies", len(images))
    ):
        # Pixels of more than 8 bits: the chain does not know their unit anyway.
        top = 255 if grey.dtype == np.uint8 else max(float(grey.max()), 1e-12)
        squares[i, 0] = np.clip(np.rint(grey * (255 / top)), 0, 255)
        if colours:
            squares[i, 1:] = colours
    return squares


def network_answers(network: Network, model: Any, squares: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Log-probabilities of small copies by each of its classifiers, (2, n, n_classes)."""
    describe = get_engine("cpu" if model.engine in ("auto", "torch") else model.engine).describe
    work = model._in_parallel(
        lambda i: network.log_probabilities(squares[i : i + 1], describe)[0], range(len(squares))
    )
    return np.stack(list(track(work, "network", len(squares))), axis=1)


def join(answers: Answers, weights: NDArray[Any]) -> NDArray[np.float64]:
    """Scores of all together, (n, n_classes); their softmax are probabilities."""
    return np.tensordot(weights, np.asarray(answers, dtype=np.float64), 1)


def joint_weights(
    answers: Answers,
    y: NDArray[np.intp],
    groups: NDArray[Any] | None = None,
    temperature: float = 1.0,
) -> NDArray[np.float64]:
    """Of the SVM and the network's classifiers: those that make the labels of held-out images most
    likely, none below zero.

    Far from the usual ones they must be worth it, or ten images could speak for the SVM by chance. Hands
    of the training part, 2 and 5 of a class to learn from, six draws: 79.5 percent instead of 78.5.

    groups : of the held-out images, if they were held out by groups
    temperature : of the SVM, by all its held-out answers; used with groups
    """
    usual, unit, price = USUAL, np.ones(3), UNUSUAL / len(y)
    if groups is not None:
        unit = np.array([temperature, 1.0, 1.0])
        usual, price = USUAL_OF_GROUPS * unit, UNUSUAL_OF_GROUPS / len(np.unique(groups))

    def cost(weights: NDArray[Any]) -> float:
        unusual = float(np.square((weights - usual) / unit).sum())
        return _loss(join(answers, weights), y) + price * unusual

    return np.asarray(minimize(cost, usual, bounds=[(0, 50)] * len(usual), method="L-BFGS-B").x)


def _loss(scores: NDArray[Any], y: NDArray[np.intp]) -> float:
    """Mean negative log-likelihood, as if one image more had been seen whose label says nothing.

    Without it, weights grow beyond all bounds when no held-out image is told wrong.
    """
    logs = log_softmax(scores, axis=1)
    return float(-(logs[np.arange(len(y)), y].sum() + logs.mean()) / (len(y) + 1))
