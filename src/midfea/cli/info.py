"""`midfea info`: what a model file holds, and how good the model is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from midfea.cli.common import check_outputs, printable
from midfea.cli.options import Model
from midfea.cli.results import print_accuracy, print_classes
from midfea.files import replacing

if TYPE_CHECKING:
    from midfea.report.about import About

MAX_CLASSES_LISTED = 20


def info(
    model: Model,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
    card: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write a model card (Markdown).")
    ] = None,
) -> None:
    """Say what a model is and how good it is: classes, settings, accuracy, recall and precision.

    The numbers are those of the validation that train made; the model file
    keeps them. An exported ONNX file holds less.

    Examples:

        midfea info pets.midfea
        midfea info pets.midfea --json
        midfea info pets.midfea --card pets.md
    """
    from midfea.report.about import about
    from midfea.report.card import card as card_of

    check_outputs(card)
    found = about(model)
    if as_json:
        print(json.dumps(found.to_json(), indent=1))
    else:
        _print_about(found)
    if card is not None:
        with replacing(card) as temporary:
            temporary.write_text(card_of(found), encoding="utf-8", errors="backslashreplace")
        if not as_json:
            print(f"Model card: {card}")


def _print_about(found: About) -> None:
    from midfea.report.card import unknown_accuracy
    from midfea.view.decisions import usual_promises

    midfea = "" if found.midfea is None else f", by midfea {found.midfea}"
    rows = {
        "Model": f"{found.name} ({found.n_bytes / 1e6:.1f} MB, format {found.format}{midfea})",
        "Kind": found.what,
    }
    if found.classes:
        listed = ", ".join(found.classes[:MAX_CLASSES_LISTED])
        more = "" if len(found.classes) <= MAX_CLASSES_LISTED else ", ..."
        rows["Classes"] = f"{len(found.classes)}: {listed}{more}"
    rows["Images"] = found.images
    if found.sizes is not None:
        rows["Learned"] = found.sizes
    if found.chosen is not None:
        named = ", ".join(f"{name}={value}" for name, value in found.chosen.items())
        rows["Settings"] = f"preset {found.preset or 'none'}; {named}"
    width = max(map(len, rows)) + 2
    for name, value in rows.items():
        print(f"{name + ':':<{width}}{printable(value)}")
    if found.measured is not None:
        predictions, interval = found.measured.predictions, found.measured.interval
        print_classes(predictions)
        print_accuracy(f"Accuracy on new images: {interval}\n  ({found.measured.how})", predictions)
        print("\n".join(usual_promises(predictions)))
    elif found.classes:
        print(f"{unknown_accuracy(found)}.")
