"""Extras: packages that midfea can do without, which are missing, and the line that installs them."""

from __future__ import annotations

import os
import re
import shutil
import sys
from importlib.metadata import requires
from importlib.util import find_spec
from pathlib import Path

# The modules that each extra brings, and how people call them.
EXTRAS = {
    "plot": {"matplotlib": "matplotlib"},
    "web": {"fastapi": "FastAPI", "uvicorn": "uvicorn", "python_multipart": "python-multipart"},
    "torch": {"torch": "PyTorch"},
    "onnx": {"onnx": "onnx", "onnxruntime": "onnxruntime"},
    "heic": {"pillow_heif": "pillow-heif"},
    "scale": {"pyarrow": "pyarrow", "fsspec": "fsspec"},
    "ray": {"ray": "Ray"},
    "bench": {"skimage": "scikit-image", "cv2": "OpenCV"},
}
CLONE = Path(__file__).parents[2]  # if midfea runs from its sources


class MissingExtra(ImportError, ValueError):
    """Packages of an extra are not installed; the message says how to install them.

    As a ValueError it is also one of the errors that a user can mend.
    """

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs {_listed(missing(extra))}: {install_line(extra)}")


def missing(extra: str) -> list[str]:
    """The packages of an extra that are not installed. Nothing is imported to find out."""
    return [name for module, name in EXTRAS[extra].items() if not _is_there(module)]


def why_not(extra: str) -> str:
    """What of an extra is not installed, and the line to type; empty if nothing is missing."""
    names = missing(extra)
    if not names:
        return ""
    return f"{_listed(names)} {'is' if len(names) == 1 else 'are'} not installed: {install_line(extra)}"


def require(extra: str, what: str) -> None:
    """MissingExtra, saying what needs the extra, unless all of it is installed."""
    if missing(extra):
        raise MissingExtra(what, extra)


def install_line(extra: str) -> str:
    """The command that installs an extra into the environment that midfea runs in.

    For a clone it names the extra, for an installed package the extra's own packages: that line works
    whether midfea came from an index, a wheel, a clone or git.
    """
    if (CLONE / "pyproject.toml").is_file():
        place = "." if Path.cwd() == CLONE else str(CLONE)
        return f'{_pip_install()} -e "{place}[{extra}]"'
    wanted = re.compile(rf"([^;]+?)\s*;.*\bextra == ['\"]{extra}['\"]")
    found = filter(None, map(wanted.match, requires("midfea") or ()))
    return " ".join([_pip_install(), *(f'"{match[1]}"' for match in found)])


def _pip_install() -> str:
    """With the pip of this environment: the one on the PATH may belong to another."""
    on_path = shutil.which("pip")
    if on_path and os.path.samefile(Path(on_path).parent, Path(sys.executable).parent):
        return "pip install"
    if _is_there("pip"):
        return f'"{sys.executable}" -m pip install'
    return f'uv pip install --python "{sys.executable}"'  # uv makes environments without pip


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _is_there(module: str) -> bool:
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.origin is not None  # a folder of that name is no package
