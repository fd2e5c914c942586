"""Where the model disagrees: how many of the images listed really have a wrong label?

    python benchmarks/label_errors.py --data DIR [--set sign_digits] [--images 100] [--classes 6]
                                      [--share 0.03] [--preset fast] [--seeds 2]

A share of the labels of random images is replaced by another class. A model learns from them, and the
list of disagreements is compared with the images whose label was replaced. The real labels may hold
errors of their own, which count as wrongly listed here. Where the model is too weak for a list, what the
other rules would have listed stands in brackets.
"""

from __future__ import annotations

import numpy as np

from common import add_set, class_folder, make_parser, some_of_each
from midfea import MidFeaClassifier
from midfea.datasets import load_folder
from midfea.learning.disagreements import find_disagreements
from midfea.learning.predictions import Predictions
from midfea.progress import progress_bars


def main() -> None:
    parser = make_parser(__doc__)
    add_set(parser)
    parser.add_argument("--images", type=int, help="of each class; all unless given")
    parser.add_argument("--classes", type=int, help="that are drawn; all unless given")
    parser.add_argument("--share", type=float, default=0.03, help="of the labels, replaced")
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--seeds", type=int, default=2)
    given = parser.parse_args()
    with progress_bars():
        data = load_folder(class_folder(given))
    for seed in range(given.seeds):
        rng = np.random.default_rng(seed)
        classes = rng.permutation(np.unique(data.target))[: given.classes]
        among = np.flatnonzero(np.isin(data.target, classes))
        chosen = some_of_each(data.target, given.images, seed, among)
        true = np.asarray(data.target)[chosen]
        labels = true.copy()
        for i in rng.permutation(len(labels))[: round(given.share * len(labels))]:
            labels[i] = rng.choice(classes[classes != labels[i]])
        model = MidFeaClassifier(preset=given.preset, C="auto", random_state=0)
        with progress_bars():
            model.fit([data.images[i] for i in chosen], labels)
        predictions = Predictions.of_validation(model.validation_, model.classes_)
        replaced = (labels != true)[model.validation_.indices]
        interval = model.validation_.interval
        rows, reason = find_disagreements(predictions, interval)
        shown = f"{len(rows)} listed, {replaced[rows].sum()} of them replaced"
        if reason is not None:
            rows, _ = find_disagreements(predictions, interval._replace(low=1.0))
            shown = f"none listed (else {len(rows)}, {replaced[rows].sum()} of them replaced)"
        mistakes = len(predictions.mistakes())
        print(
            f"seed {seed}: {len(replaced)} images, {replaced.sum()} labels replaced, {interval}, "
            f"{mistakes} wrong predictions: {shown}",
            flush=True,
        )


if __name__ == "__main__":
    main()
