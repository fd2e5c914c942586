"""The paper's figures, drawn from the paper's data by `midfea reproduce figures`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from midfea.baselines.local_features import require_cv2
from midfea.extras import require
from midfea.progress import track

# Each name is a function (data, output, seed) in this module here.
FIGURES = {
    "flowchart": "maps",  # Fig. 1: the stages' outputs for one image
    "filters": "maps",  # Fig. 6 (a) and appendix: the learned filters
    "lights": "maps",  # Fig. 2 and appendix: soft convolution under three lights
    "descriptor_maps": "maps",  # Fig. 6 and appendix: descriptor maps beside dense SIFT's
    "neurons": "neurons",  # Fig. 4 and 5: what the neurons look for
    "self_taught": "curves",  # Fig. 3: accuracy beside self-taught learning
    "parameters": "curves",  # Fig. 7: accuracy against the parameters
}


def make_figures(
    data: Path, output: Path, *, seed: int = 0, only: Sequence[str] | None = None
) -> list[Path]:
    """Draw the figures into the folder `output`, each as PNG and PDF; the curves' numbers as JSON.

    Parameters
    ----------
    data : the folder with the data sets' folders
    output : made if it does not exist
    seed : of everything that is learned
    only : names of `FIGURES`; all if None

    Returns
    -------
    The files written, in the order of `FIGURES`.

    Raises
    ------
    ValueError if a name is unknown, or matplotlib or OpenCV is not installed.
    """
    unknown = [name for name in only or () if name not in FIGURES]
    if unknown:
        raise ValueError(f"no figure {unknown[0]!r}: choose from {', '.join(FIGURES)}")
    require("plot", "drawing the figures")
    require_cv2()
    from midfea.view.style import looks  # needs matplotlib

    output.mkdir(parents=True, exist_ok=True)
    chosen = [name for name in FIGURES if only is None or name in only]
    written: list[Path] = []
    with looks():
        for name in track(chosen, "figures", len(chosen)):
            module = import_module(f"{__name__}.{FIGURES[name]}")
            written += getattr(module, name)(data, output, seed)
    return written
