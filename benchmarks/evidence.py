"""Does the evidence fall on the defect? On the built-in set, whose defects have known boxes.

python benchmarks/evidence.py [--n-per-class 120] [--size 150] [--preset fast] [--floor 0.5] [--seed 0]

Half of the images train. For each correctly predicted image of the other half: the share of the positive
evidence that lies in the defect's box, the box's share of the area, and how many times larger the first
is. No map can reach more than 1 / area times; the mean of that is printed too. The size is the one in
which models see photos. Maps do not cover a fine-tuned network, so that none is trained. Without
`--floor` the preset chooses it.
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.model_selection import train_test_split

from midfea import MidFeaClassifier
from midfea.datasets import load_surfaces
from midfea.progress import progress_bars, track


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n-per-class", type=int, default=120)
    parser.add_argument("--size", type=int, default=150)
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--floor", type=float)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    data = load_surfaces(options.n_per_class, options.size, options.seed)
    known, new = train_test_split(
        np.arange(len(data.target)), test_size=0.5, stratify=data.target, random_state=options.seed
    )
    settings = {"preset": options.preset, "finetune": False, "C": "auto", "random_state": options.seed}
    if options.floor is not None:
        settings["floor"] = options.floor
    model = MidFeaClassifier(**settings)
    with progress_bars():
        model.fit(data.images[known], data.target[known])
        correct = new[model.predict(data.images[new]) == data.target[new]]
        work = track(correct, "explaining", len(correct))
        shares = np.array([share_in_box(model, data.images[i], data.boxes[i]) for i in work])
    y0, x0, y1, x1 = data.boxes[correct].T
    areas = (y1 - y0) * (x1 - x0) / options.size**2
    print(f"{options.preset}, {len(known)} images to learn from, C={model.head_.C:g}, "
          f"floor={model.extractor_.chain.floor:g}: "
          f"{len(correct)} of {len(new)} new ones correct")  # fmt: skip
    print(f"{'':12}{'images':>8}{'evidence in box':>20}{'area of box':>18}{'times':>16}{'possible':>10}")
    kinds = {"all": np.full(len(correct), True)}
    kinds |= {name: data.target[correct] == k for k, name in enumerate(data.target_names)}
    for name, of_kind in kinds.items():
        share, area = shares[of_kind], areas[of_kind]
        columns = f"{spread(share):>20}{spread(area):>18}{spread(share / area):>16}"
        print(f"{name:12}{of_kind.sum():8}{columns}{(1 / area).mean():10.2f}")


def share_in_box(model: MidFeaClassifier, image: np.ndarray, box: np.ndarray) -> float:
    """The part of the positive evidence for the answer that lies in the box."""
    positive = np.maximum(model.explain(image).evidence, 0)
    y0, x0, y1, x1 = box
    return float(positive[y0:y1, x0:x1].sum() / positive.sum())


def spread(values: np.ndarray) -> str:
    return f"{values.mean():.2f} ± {values.std():.2f}"


if __name__ == "__main__":
    main()
