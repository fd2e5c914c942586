"""Named bundles of parameters, and the rules that all parameters must obey."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

from midfea.stages.pooling import partition_levels

# The paper's settings for object categories (Section 4.4) are the estimators' defaults. Each preset
# lists what it sets; a key that one of them sets and another does not returns to its default.
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    # Half the paper's words, but larger windows without pairs and LLC codes: more accurate than the
    # paper's features on objects and hands; on faces the paper's are as good.
    # No floor and no cells suit all. On held-out quarters of training parts, floor 0.5 instead of 0 is
    # worth 6.1 points on sign_digits and costs 1.3 on Caltech-101, 4.2 on AR (gender), 13.4 on Yale B.
    "fast": {
        "n_filters": 16,
        "floor": "cv",
        "pairs": False,
        "window": 4,
        "n_words": 500,
        "encoding": "llc",
        "partition": "cv",
        "projection": None,
    },
    # Held-out parts again, SVM and network together: 6x6 cells instead of the pyramid, 22 errors instead
    # of 25 on AR (gender; its likelihood is worse, 0.100 against 0.095) and 4 instead of 6 on Yale B;
    # objects lose. A second scale, half the size: Caltech-101 +0.3; a third one, 0.71: nothing more. On
    # AR's faces, 60 pixels high, more scales cost.
    "best": {
        "n_filters": 24,
        "floor": "cv",
        "pairs": False,
        "window": 4,
        "scales": "auto",
        "n_words": "cv",
        "encoding": "llc",
        "partition": "cv",
        "projection": None,
        "finetune": "auto",
    },
}

# What "cv" chooses between on held-out training images (`choices`); the first, without classes
# (`unchosen`).
CHOICES: dict[str, tuple[Any, Any]] = {
    "floor": (0.0, 0.5),
    "partition": ("overlapping pyramid", (6, 6)),
}

# Likewise for the words, by the features themselves (`choices.learn`).
WORDS = (4096, 16384)

_AT_LEAST = {
    "n_filters": 2,  # with a single map nothing stands above the mean map
    "filter_size": 2,
    "window": 1,
    "n_neighbors": 1,
    "n_components": 1,
    "n_samples": 1,
}
_ONE_OF = {
    "filter_method": ("whitened", "raw"),
    "padding": ("valid", "same"),
    "encoding": ("vq", "soft", "llc"),
    "pooling": ("max", "sum"),
    "projection": ("random", "gaussian", "uniform", "pca", None),
    "engine": ("auto", "reference", "cpu", "torch"),
    "precision": ("exact", "fast"),
    "preset": (None, *PRESETS),
}


def preset_values(preset: Any, defaults: dict[str, Any]) -> dict[str, Any]:
    """Every parameter of an estimator that presets speak of, with its value under this one.

    Nothing for no preset and for one that does not exist: `check` refuses it when fitting.
    """
    if not isinstance(preset, str) or preset not in PRESETS:
        return {}
    spoken_of = {name for bundle in PRESETS.values() for name in bundle if name in defaults}
    return {name: PRESETS[preset].get(name, defaults[name]) for name in spoken_of}


def unchosen(params: dict[str, Any]) -> dict[str, Any]:
    """What parameters that are "cv" come to where nothing chooses."""
    usual = {name: values[0] for name, values in CHOICES.items()} | {"n_words": WORDS[0]}
    return {name: value for name, value in usual.items() if params[name] == "cv"}


def check(params: dict[str, Any]) -> None:
    """ValueError, naming the parameter, if one of them cannot be used."""
    params = params | unchosen(params)
    for name, least in _AT_LEAST.items():
        _require(params, name, _is_int(params[name], least), f"an integer of {least} or more")
    for name, choices in _ONE_OF.items():
        _require(params, name, params[name] in choices, "one of " + ", ".join(map(repr, choices)))
    for name in ("rectify", "pairs"):
        _require(params, name, isinstance(params[name], bool), "True or False")
    _require(params, "n_words", _is_int(params["n_words"], 1), 'an integer of 1 or more, or "cv"')
    floor = params["floor"]
    _require(params, "floor", _is_number(floor) and floor >= 0, 'zero or more, or "cv"')
    _require(params, "softness", _is_number(params["softness"]) and params["softness"] > 0, "above zero")
    device = params["device"]
    _require(params, "device", device is None or isinstance(device, str), 'None or such as "cuda"')
    max_side = params["max_side"]
    _require(params, "max_side", max_side is None or _is_int(max_side, 1), "None or a number of pixels")
    scales = params["scales"]
    fine = isinstance(scales, tuple | list) and len(scales) > 0
    fine = fine and all(_is_number(scale) and 0 < scale <= 4 for scale in scales)
    fine = fine or scales == "auto"
    _require(params, "scales", fine, 'factors above 0 and up to 4, such as (1.0, 0.5), or "auto"')
    partition_levels(params["partition"], (64, 64))
    if params["encoding"] != "vq" and params["n_neighbors"] > params["n_words"]:
        raise ValueError(f"n_neighbors={params['n_neighbors']} exceeds n_words={params['n_words']}")


def _require(params: dict[str, Any], name: str, fine: bool, wanted: str) -> None:
    if not fine:
        raise ValueError(f"{name} must be {wanted}, got {params[name]!r}")


def _is_int(value: Any, least: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
