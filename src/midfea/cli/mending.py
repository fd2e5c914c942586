"""Wrong arguments of the command: what they are, and the exact line to type in their place."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from midfea.files import did_you_mean
from midfea.pictures.formats import has_image_ending
from midfea.provenance import command_line

MODEL_ENDINGS = (".midfea", ".onnx")
WORKSPACE_NAMES = (".midfea", "images")


def is_model_file(path: Path) -> bool:
    """Whether there is a file, named as models are."""
    return path.suffix.lower() in MODEL_ENDINGS and os.path.isfile(path)


def is_image_file(path: Path) -> bool:
    """Whether there is a file, named as images are."""
    return has_image_ending(path.name) and os.path.isfile(path)


@contextmanager
def mending(folder: Path, *, testing: bool = False, output: Path | None = None) -> Iterator[None]:
    """Around the reading of a folder of class folders: if it is none, what to type.

    testing : the folder is one to test with, not one to learn from
    output : the model file that will be written, to test it then
    """
    from midfea.datasets.diagnosis import WrongFolder

    if is_model_file(folder):
        line = command_line({folder: Path("photos")})
        raise ValueError(
            f"{folder}: a model file. Here belongs the folder that holds one folder of images for each "
            f"class, such as: {line}"
        )
    try:
        yield
    except WrongFolder as wrong:
        steps = [wrong.shell] if wrong.shell else []
        instead = wrong.test if testing else wrong.train
        if instead is not None:
            steps.append(command_line({folder: instead}))
        if output is not None and wrong.test != wrong.train and wrong.test is not None:
            steps.append(shlex.join(["midfea", "evaluate", str(output), str(wrong.test)]))
        if output is not None and wrong.unlabelled is not None:
            steps.append(shlex.join(["midfea", "predict", str(output), str(wrong.unlabelled)]))
        raise ValueError(f"{wrong.found} Type: {' && '.join(steps)}" if steps else wrong.found) from None


def check_model(path: Path, others: Sequence[Path] = ()) -> None:
    """ValueError with what to type if something else stands where a model file belongs.

    others : the other paths of the command; a model file among them belongs in front
    """
    if is_model_file(path):
        return
    is_image = is_image_file(path)
    models = [other for other in others if is_model_file(other)]
    if models and (is_image or not os.path.isfile(path)):
        line = command_line({path: models[0], models[0]: path})
        raise ValueError(f"{models[0]} is the model file, not {path}: it comes first. Type: {line}")
    if is_image:
        raise ValueError(f"{path}: an image file, not a model file. {_model_near(path)}")
    if os.path.isdir(path):
        raise ValueError(f"{path}: a folder, not a model file. {_model_near(path)}")
    if not os.path.exists(path):
        near = did_you_mean(path, is_model_file)
        if near is not None:
            line = command_line({path: near})
            raise FileNotFoundError(f"{path}: no such model file. Did you mean {near}? Type: {line}")


def check_image(path: Path) -> None:
    """ValueError with what to type if something else stands where one image belongs."""
    from midfea.datasets.folder import find_images

    if os.path.isdir(path):
        images = find_images([path])
        typed = f" Type: {command_line({path: images[0]})}" if images else ""
        raise ValueError(f"{path}: a folder, not an image: name one image.{typed}")
    if is_model_file(path):
        raise ValueError(f"{path}: a model file, not an image: name the image to look at")
    near = None if os.path.exists(path) else did_you_mean(path, is_image_file)
    if near is not None:
        line = command_line({path: near})
        raise FileNotFoundError(f"{path}: no such file. Did you mean {near}? Type: {line}")


def check_workspace(workspace: Path, model: Path | None) -> None:
    """ValueError with what to type if a folder of images stands where a model or a workspace belongs."""
    if model is not None and model.is_dir():
        if is_workspace(model):
            line = shlex.join(["midfea", "serve", "--workspace", str(model)])
            raise ValueError(f"{model}: a workspace, not a model file. Type: {line}")
        _refuse_images(model, "not a model file")
    if model is not None:
        check_model(model)
    if workspace.is_dir() and not is_workspace(workspace):
        _refuse_images(workspace, "not a workspace, which holds them in its folder 'images'")


def is_workspace(folder: Path) -> bool:
    """Whether `midfea serve` has been here, or a person has put class folders into "images"."""
    return any((folder / name).exists() for name in WORKSPACE_NAMES)


def _refuse_images(folder: Path, why: str) -> None:
    """ValueError if a folder holds images: how to make a workspace of them."""
    from midfea.datasets.diagnosis import above, survey

    tree = survey(folder)
    if not tree.n_images:
        return
    start = f"{folder}: a folder of {tree.n_images} images, {why}."
    if tree.images or not tree.classes:
        raise ValueError(
            f"{start} Start without it, and drop the images on the page. Type: midfea serve"
        )
    new = above(folder) / f"{folder.resolve().name}-workspace"
    steps = (
        ["mkdir", str(new)],
        ["cp", "-r", str(folder), str(new / "images")],
        ["midfea", "serve", "--workspace", str(new)],
    )
    line = " && ".join(map(shlex.join, steps))
    raise ValueError(f"{start} To make a workspace with a copy of them, type: {line}")


def _model_near(path: Path) -> str:
    """The model that may have been meant in place of a folder or an image; else how to make one."""
    from midfea.datasets.diagnosis import WrongFolder, check_layout

    for place in (path, Path()):
        found = sorted(filter(is_model_file, place.iterdir())) if place.is_dir() else []
        if found:
            return f"Did you mean {found[0]}? Type: {command_line({path: found[0]})}"
    folder, model = Path("photos"), Path("model.midfea")
    try:
        folder = check_layout(path).path
    except WrongFolder:
        return f"A model file is what midfea train writes, such as: midfea train {folder} -o {model}"
    train = shlex.join(["midfea", "train", str(folder), "-o", str(model)])
    return f"Train a model first. Type: {train} && {command_line({path: model})}"


def hint(path: Path | str) -> str:
    """Of a file that is missing, the one that may have been meant."""
    near = None if os.path.exists(path) else did_you_mean(path, os.path.isfile)
    return "" if near is None else f" (did you mean {near}?)"
