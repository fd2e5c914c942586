"""RESULTS.md, written from the JSON files that the commands leave; verdicts follow from the numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from midfea.provenance import Row
from midfea.reproduce.protocols import PROTOCOLS

# A heading for each file, and what a reader must know of the data or of the paper. No findings here:
# those are computed.
SECTIONS: dict[str, tuple[str, str]] = {
    "ar-face": ("AR, face recognition", ""),
    "ar-gender": (
        "AR, gender",
        "This copy of the data is 60x43 pixels (66x48 in the paper), one image is missing, and which "
        "people come first may differ.",
    ),
    "yale-b": ("Extended Yale B, face recognition", ""),
    "fg-net": (
        "FG-NET, age",
        "The paper does not say how its faces were cropped; the methods it compares with start from "
        "faces warped by an active appearance model. The row with shape adds the kernels of MidFea, of "
        "the warped faces' pixels and of the landmarks; that this sum is good was known from earlier "
        "trials on all of the data. The classes of the NS layer are decades.",
    ),
    "caltech101": (
        "Caltech-101, objects",
        "The paper does not say which of the accuracies its number is, nor whether the background "
        "counts. The floor for faint responses is not in the paper. Ours has larger windows without "
        "pairs, three scales, LLC codes and 2048 words.",
    ),
    "caltech256": ("Caltech-256, objects", ""),
    "claims": (
        "Claims",
        "light: below 1, people differ more than lights do. focus: 1 means attention spread evenly, "
        "more than 1 attention to the face. projection: accuracy in so many dimensions.",
    ),
}
COLUMNS = (
    *("method", "metric", "mean", "deviation", "trials", "paper", "ours - paper"),
    *("own paper", "s to train", "ms per image"),
)
INTRODUCTION = """\
# Results

Written by `midfea reproduce results` from the files in `results/`, each of which the command
above its table wrote. Mean and deviation are over the trials: random splits or, where the split is
fixed, seeds of all that is learned; of ages, over the people. Accuracies in percent. "ours - paper"
is our mean less the number in the paper's table, "above" or "below" if they differ by more than one
deviation (of ages: one standard error of the mean); of a difference of two rows, Student's t stands
there. "own paper" is what the authors of a compared system reported, on their splits and image
sizes. Times are those of one machine with other work to do, on all its cores. Every row of the files
says where it comes from ("about"); of rows older than this record, git history gives the commit that
last changed them."""


def results_page(folder: Path) -> str:
    """The page: a table for each JSON file in the folder."""
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder. Write files there with midfea reproduce ... --json")
    files = {path.stem: path for path in sorted(folder.glob("*.json"))}
    if not files:
        raise ValueError(f"{folder}: no JSON files. Write them with midfea reproduce ... --json")
    parts = [INTRODUCTION]
    for name in [*(n for n in SECTIONS if n in files), *sorted(set(files) - set(SECTIONS))]:
        title, remark = SECTIONS.get(name, (name, ""))
        rows = _in_order(name, json.loads(files[name].read_text()))
        command = f"`midfea reproduce {name} --data DATA --json results/{name}.json`"
        findings = " ".join([*_findings(rows), remark]).strip()
        parts += [f"## {title}", command, "\n".join(_table(rows)), findings, _origin(rows)]
    return "\n\n".join(part for part in parts if part) + "\n"


def verdict(row: Row) -> str:
    """Our number beside the paper's: "+4.35, above"; of a paired difference its t; else empty."""
    if row.get("t") is not None:
        return f"t {row['t']:.1f}"
    if row["paper"] is None:
        return ""
    difference, is_error = row["mean"] - row["paper"], row["metric"].startswith("MAE")
    if row["trials"] == 1:
        return f"{difference:+.2f}, one trial"
    deviation = row["std"] / row["trials"] ** 0.5 if is_error else row["std"]
    if abs(difference) <= deviation:
        return f"{difference:+.2f}, within one deviation"
    quality = "" if not is_error else " (worse)" if difference > 0 else " (better)"
    return f"{difference:+.2f}, {'above' if difference > 0 else 'below'}{quality}"


def _findings(rows: list[Row]) -> list[str]:
    """Sentences computed from the rows: verdicts on the first metric, what the NS layer is worth."""
    main = [row for row in rows if row["metric"] == rows[0]["metric"]]
    paper = {row["method"]: row["paper"] for row in main if row["paper"] is not None}
    verdicts = [f"{row['method']} {verdict(row)}" for row in main if row["method"] in paper]
    sentences = [f"Beside the paper ({rows[0]['metric']}): {'; '.join(verdicts)}."] if verdicts else []
    sentences += _winners(main)
    for row in main:
        layered, less, plain = row["method"].partition(" less ")
        if less:
            gain = f"{row['method']}: {row['mean']:+.2f} (deviation {row['std']:.2f}{_t(row)})"
            both = layered in paper and plain in paper
            theirs = f"; in the paper {paper[layered] - paper[plain]:+.2f}" if both else ""
            sentences.append(f"{gain}{theirs}.")
    return sentences + _claims(rows)


def _winners(main: list[Row]) -> list[str]:
    """Who is first here and in the paper, of the rows that both have; and who is first of all."""
    both = [row for row in main if row["paper"] is not None]
    single = [row for row in main if " less " not in row["method"]]
    if len(both) < 2 or both[0]["metric"].startswith("MAE"):
        return []

    def ranking(key: str) -> str:
        ranked = sorted(both, key=lambda row: -float(row[key]))
        return " > ".join(f"{row['method']} {row[key]:.1f}" for row in ranked)

    best = max(single, key=lambda row: float(row["mean"]))
    return [
        f"From the best, here: {ranking('mean')}. In the paper: {ranking('paper')}.",
        f"Best of all rows: {best['method']} ({best['mean']:.1f}).",
    ]


def _t(row: Row) -> str:
    return "" if row.get("t") is None else f", t {row['t']:.1f}"


def _claims(rows: list[Row]) -> list[str]:
    """The same for the rows of the claims."""
    sentences = []
    for name, sign, limit in (("light", -1, "below 1"), ("focus", 1, "above 1")):
        part = [row for row in rows if row["dataset"] == name]
        methods = [row["method"] for row in part if sign * (row["mean"] - 1) > row["std"]]
        if part:
            sentences.append(
                f"{name}, {limit} by more than a deviation: {', '.join(methods) or 'none'}."
            )
    for row in (row for row in rows if row["method"] == "projection none"):
        others = [r for r in rows if r["dataset"] == row["dataset"]]
        for kind in ("random", "PCA"):
            losses = [row["mean"] - r["mean"] for r in others if f"projection {kind}" in r["method"]]
            if losses:
                span = f"{min(losses):.1f} to {max(losses):.1f} points"
                sentences.append(f"{row['dataset']}: {kind} projection loses {span}.")
    return sentences


def cells(row: Row) -> tuple[str, ...]:
    """Of a row, the text for each of `COLUMNS`."""
    more = [row.get(key) for key in ("published", "seconds_to_train", "ms_per_image")]
    return (
        row["method"],
        row["metric"],
        f"{row['mean']:.2f}",
        f"{row['std']:.2f}",
        str(row["trials"]),
        "" if row["paper"] is None else str(row["paper"]),
        verdict(row),
        *("" if value is None else f"{value:.4g}" for value in more),
    )


def with_kept(rows: Sequence[Row], path: Path | None) -> list[Row]:
    """New rows, and before them those of a file that stay: of other methods than the new ones.

    A difference stays if both of its methods do.
    """
    if path is None or not path.exists():
        return list(rows)
    new = {(row["dataset"], method) for row in rows for method in row["method"].split(" less ")}
    old: list[Row] = json.loads(path.read_text())
    kept = [
        row for row in old if not any((row["dataset"], m) in new for m in row["method"].split(" less "))
    ]
    return kept + list(rows)


def _in_order(name: str, rows: list[Row]) -> list[Row]:
    """As the protocol names its methods; others, such as differences, behind them as they come."""
    if name not in PROTOCOLS:
        return rows
    protocol = PROTOCOLS[name]
    known = [method.name for method in protocol.methods] + [one.name for one in protocol.compared]
    place = {method: i for i, method in enumerate(known)}
    return sorted(rows, key=lambda row: place.get(row["method"], len(known)))


def _table(rows: list[Row]) -> list[str]:
    several = len({row["dataset"] for row in rows}) > 1
    used = [i for i, column in enumerate(zip(*map(cells, rows), strict=True)) if any(column)]
    lines = [[*(["data"] if several else []), *(COLUMNS[i] for i in used)]]
    for row in rows:
        values = cells(row)
        lines.append([*([row["dataset"]] if several else []), *(values[i] for i in used)])
    lines.insert(1, ["---"] * len(lines[0]))
    return ["| " + " | ".join(line) + " |" for line in lines]


def _origin(rows: list[Row]) -> str:
    """The commits of the rows and their days, oldest first."""
    origins = [row["about"] for row in rows if "about" in row]
    dates = {origin["commit"][:10]: origin["date"] for origin in origins}
    listed = [f"{commit} ({dates[commit][:10]})" for commit in sorted(dates, key=dates.__getitem__)]
    return f"Commits of the rows: {', '.join(listed)}." if listed else ""
