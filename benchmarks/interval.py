"""Is the interval that `midfea train` prints honest? How often a test on new images falls inside it.

    python benchmarks/interval.py --data DIR [--set sign_digits] [--splits 20] [--preset fast]

For each random half of the images: train on it as `midfea train` does, and test on the other half. The
test is itself uncertain, so its result falls outside more often than the model's true accuracy does. For
comparison, how often it would be inside Wilson's interval for as many independent predictions.
"""

from __future__ import annotations

import numpy as np
from sklearn.model_selection import train_test_split

from common import add_set, class_folder, make_parser
from midfea import MidFeaClassifier
from midfea.datasets import load_folder
from midfea.learning.interval import wilson
from midfea.progress import progress_bars


def main() -> None:
    parser = make_parser(__doc__)
    add_set(parser)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--preset", default="fast")
    given = parser.parse_args()
    with progress_bars():
        data = load_folder(class_folder(given))
    n_inside, n_inside_wilson, differences = 0, 0, []
    for seed in range(given.splits):
        train, test = train_test_split(
            np.arange(len(data.images)), test_size=0.5, stratify=data.target, random_state=seed
        )
        model = MidFeaClassifier(preset=given.preset, C="auto", random_state=seed)
        with progress_bars():
            model.fit([data.images[i] for i in train], data.target[train])
            accuracy = model.score([data.images[i] for i in test], data.target[test])
        interval = model.validation_.interval
        plain = wilson(round(interval.accuracy * len(train)), len(train))
        inside = interval.low <= accuracy <= interval.high
        n_inside += inside
        n_inside_wilson += plain.low <= accuracy <= plain.high
        differences.append(accuracy - interval.accuracy)
        verdict = "inside" if inside else "OUTSIDE"
        print(f"split {seed:2}: validation {interval}, new images {accuracy:.1%}: {verdict}", flush=True)
    print(f"inside {n_inside} of {given.splits}; Wilson's interval alone {n_inside_wilson}")
    spread = f"mean {np.mean(differences):+.2%}, deviation {np.std(differences):.2%}"
    print(f"new images less validation: {spread}")


if __name__ == "__main__":
    main()
