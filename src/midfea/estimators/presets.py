"""Named bundles of parameters."""

from __future__ import annotations

from typing import Any

from midfea.extras import missing

# The paper's settings for object categories (Section 4.4) are the estimators' defaults. Each preset
# lists what it sets; a key that one of them sets and another does not returns to its default.
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    "fast": {
        "n_filters": 16,
        "floor": "auto",
        "pairs": False,
        "window": 4,
        "n_words": 500,
        "encoding": "llc",
        "partition": "auto",
        "projection": None,
        "colour": "auto",
        "class_weight": "balanced",
    },
    "best": {
        "n_filters": 24,
        "floor": "auto",
        "pairs": False,
        "window": 4,
        "scales": "auto",
        "n_words": "auto",
        "encoding": "llc",
        "partition": "auto",
        "projection": None,
        "colour": "auto",
        "class_weight": "balanced",
        "finetune": "auto",
    },
}


# Of a model for which fine-tuning was "auto".
NO_NETWORK = "Trained without a network, which needs PyTorch and is usually more accurate"


def default_preset() -> str:
    """The preset of `midfea train`: the most accurate one, where all of it can be trained."""
    return "fast" if missing("torch") else "best"


def preset_values(preset: Any, defaults: dict[str, Any]) -> dict[str, Any]:
    """Every parameter of an estimator that presets speak of, with its value under this one.

    Nothing for no preset and for one that does not exist: `check_preset` refuses it when fitting.
    """
    if not isinstance(preset, str) or preset not in PRESETS:
        return {}
    names = {name for bundle in PRESETS.values() for name in bundle if name in defaults}
    return {name: PRESETS[preset].get(name, defaults[name]) for name in names}


def check_preset(preset: Any) -> None:
    """ValueError if there is no such preset."""
    if preset is not None and preset not in PRESETS:
        listed = ", ".join(map(repr, PRESETS))
        raise ValueError(f"preset must be one of None, {listed}, got {preset!r}")
