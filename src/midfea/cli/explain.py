"""`midfea explain`: why an image gets its prediction."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from midfea.cli.common import check_outputs, load_classifier, read_folder
from midfea.cli.mending import check_image
from midfea.cli.options import Jobs, Model


def explain(
    model: Model,
    image: Annotated[Path, typer.Argument(help="The image to explain.", show_default=False)],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="What to write: a .png drawing or an .html page.")
    ] = Path("explanation.html"),
    label: Annotated[
        str | None, typer.Option(help="Explain this class, not the predicted one.", show_default=False)
    ] = None,
    photos: Annotated[
        Path | None,
        typer.Option(help="The training folder: also show its most similar images.", show_default=False),
    ] = None,
    jobs: Jobs = None,
) -> None:
    """Show where in an image the evidence for the prediction lies.

    The page or drawing also has the words for the class and against it, the active neurons, what the
    stages see and, with --photos, the most similar training images.

    Example: midfea explain pets.midfea cat.jpg -o cat.html --photos photos
    """
    from midfea import MidFeaClassifier
    from midfea.explain.content import Example, headline, sum_of_parts
    from midfea.explain.drawing import write_drawing
    from midfea.explain.page import write_page
    from midfea.extras import MissingExtra, require
    from midfea.progress import progress_bars
    from midfea.view.refusal import belonging_words

    kinds = {".png": write_drawing, ".html": write_page}
    if output.suffix.lower() not in kinds:
        raise ValueError(f"cannot write {output}: its name must end in .png or .html")
    check_outputs(output)
    if output.suffix.lower() == ".png":
        try:
            require("plot", "a drawing")
        except MissingExtra as error:
            raise ValueError(f"{error}, or write an .html page") from None
    classifier = load_classifier(model, [image])
    check_image(image)
    if not isinstance(classifier, MidFeaClassifier):
        raise ValueError(f"{model}: an exported model cannot explain itself, give the .midfea file")
    classifier.n_jobs = jobs
    with progress_bars():
        training = None if photos is None else read_folder(photos, classifier)
        if training is not None and not training.images:
            raise ValueError(f"{photos}: no usable image")
        found = classifier.explain(image, label, training=training and training.images)
    title = f"{image.name}: {headline(found)}"
    examples = []
    if training is not None and found.nearest is not None:
        for i, distance in zip(*found.nearest, strict=True):
            caption = f"{training.target[i]} ({distance:.2f})"
            examples.append(Example(training.images[i].grey, caption))
    kinds[output.suffix.lower()](output, found, title, examples)
    print(title)
    print(sum_of_parts(found))
    if found.belonging is not None:
        print(f"Belonging: {found.belonging:.1%} ({belonging_words(found.belonging)})")
    print(f"Explanation: {output}")
