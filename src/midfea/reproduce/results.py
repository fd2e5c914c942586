"""RESULTS.md, written from the JSON files that the commands leave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Row = dict[str, Any]

# A set's file, its heading, the command, and one honest sentence on where we differ from the paper.
SECTIONS: dict[str, tuple[str, str]] = {
    "ar-face": (
        "AR, face recognition",
        "Above the paper's numbers. The NS layer, worth 1.4 points in the paper, gains nothing here.",
    ),
    "ar-gender": (
        "AR, gender",
        "Below the paper's numbers, but for raw pixels; ours comes to the paper's without its NS layer. "
        "This copy of the data is 60x43 pixels (66x48 there), one image is missing, and which people "
        "come first may differ.",
    ),
    "yale-b": ("Extended Yale B, face recognition", "The paper's number."),
    "fg-net": (
        "FG-NET, age",
        "With its own architecture we do not reach the paper's error. It does not say how its faces "
        "were cropped; the methods it compares with start from faces warped by an active appearance "
        "model. The row with shape adds the kernels of MidFea, of the warped faces' pixels and of the "
        "landmarks; that this sum is good was known from earlier trials on all of the data. The NS "
        "layer, with decades as classes, loses.",
    ),
    "caltech101": (
        "Caltech-101, objects",
        "With hard VQ we stay about ten points below the paper's number (it does not say which of the "
        "accuracies that is, nor whether the background counts); larger windows without pairs, three "
        "scales, LLC codes and 2048 words reach it. A floor for faint responses, which the paper does "
        "not have, is worth two points of the mean per class. The NS layer, with twenty neurons for "
        "each class, loses one.",
    ),
    "caltech256": ("Caltech-256, objects", "Not measured: the data was not at hand."),
    "claims": (
        "Claims",
        "light: below 1, people differ more than lights do; so they do for our maps alone. focus: 1 "
        "means attention spread evenly; ours is not drawn to the face, against what the paper says. "
        "projection: random projection loses accuracy in every dimension tried, PCA hardly any.",
    ),
}


def results_page(folder: Path) -> str:
    """The page: a table for each JSON file in the folder."""
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder. Write files there with midfea reproduce ... --json")
    found = {path.stem: path for path in sorted(folder.glob("*.json"))}
    if not found:
        raise ValueError(f"{folder}: no JSON files. Write them with midfea reproduce ... --json")
    lines = [
        "# Results",
        "",
        "Written by `midfea reproduce results` from the files in `results/`, each of which the command",
        "above its table wrote. Mean and deviation are over the trials: random splits or, where the",
        "split is fixed, seeds of all that is learned; of ages, over the people. Accuracies in percent.",
    ]
    for name in [*(n for n in SECTIONS if n in found), *sorted(set(found) - set(SECTIONS))]:
        title, remark = SECTIONS.get(name, (name, ""))
        rows = json.loads(found[name].read_text())
        lines += ["", f"## {title}", "", f"`{_command(name)}`", "", *_table(rows)]
        if remark:
            lines += ["", remark]
    return "\n".join(lines) + "\n"


def _command(name: str) -> str:
    return f"midfea reproduce {name} --data DATA --json results/{name}.json"


def _table(rows: list[Row]) -> list[str]:
    several = len({row["dataset"] for row in rows}) > 1
    first = ("data",) if several else ()
    header = [*first, "method", "metric", "mean", "deviation", "trials", "paper"]
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    for row in rows:
        cells = [row["dataset"]] if several else []
        paper = "" if row["paper"] is None else str(row["paper"])
        cells += [row["method"], row["metric"], f"{row['mean']:.2f}", f"{row['std']:.2f}"]
        lines.append("| " + " | ".join([*cells, str(row["trials"]), paper]) + " |")
    return lines
