"""Is the interval that `midfea train` prints honest? How often a test on new images falls inside it.

    python benchmarks/interval.py --data FOLDER [--splits 20] [--preset fast]

FOLDER holds one folder of images for each class. For each random half of them: train on it as
`midfea train` does, and test on the other half. The test is itself uncertain, so its result falls
outside more often than the model's true accuracy does. For comparison, how often it would be inside
Wilson's interval for as many independent answers.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split

from midfea.cli.train import make_classifier
from midfea.datasets import load_folder
from midfea.learning.interval import wilson
from midfea.progress import progress_bars


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--preset", default="fast")
    given = parser.parse_args()
    with progress_bars():
        data = load_folder(given.data)
    inside, naive, shifts = 0, 0, []
    for seed in range(given.splits):
        train, test = train_test_split(
            np.arange(len(data.images)), test_size=0.5, stratify=data.target, random_state=seed
        )
        model = make_classifier(given.preset, seed=seed)
        with progress_bars():
            model.fit([data.images[i] for i in train], data.target[train])
            found = model.validation_.interval
            answers = model.predict([data.images[i] for i in test])
        accuracy = float((answers == data.target[test]).mean())
        plain = wilson(round(found.accuracy * len(train)), len(train))
        inside += found.low <= accuracy <= found.high
        naive += plain.low <= accuracy <= plain.high
        shifts.append(accuracy - found.accuracy)
        said = "inside" if found.low <= accuracy <= found.high else "OUTSIDE"
        print(f"split {seed:2}: promised {found}, new images {accuracy:.1%}: {said}", flush=True)
    print(f"inside {inside} of {given.splits}; a plain Wilson interval would have had {naive}")
    print(f"new images less promise: mean {np.mean(shifts):+.2%}, deviation {np.std(shifts):.2%}")


if __name__ == "__main__":
    main()
