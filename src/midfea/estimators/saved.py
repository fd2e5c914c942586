"""`load`: the estimator of a model file."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING

from midfea.engines import NAMES as ENGINE_NAMES
from midfea.estimators.fitted_classifier import FittedClassifier
from midfea.estimators.neuron_selectivity import NeuronSelectivity
from midfea.learning.belonging import check_unknown
from midfea.learning.class_weights import check_class_weight
from midfea.learning.network.settings import NetworkSettings
from midfea.model_file import ModelFileError, read_model
from midfea.model_file.schema import Number

if TYPE_CHECKING:
    from midfea.estimators.classifier import MidFeaClassifier
    from midfea.estimators.regressor import MidFeaRegressor
    from midfea.estimators.transformer import MidFea

# Imported when needed: the regressor needs much of scikit-learn that a classifier does without.
HOMES = {"MidFea": "transformer", "MidFeaClassifier": "classifier", "MidFeaRegressor": "regressor"}

N_JOBS = Number(-1024, 1024, whole=True)


def load(path: str | os.PathLike[str]) -> MidFea | MidFeaClassifier | MidFeaRegressor:
    """The estimator saved in a `.midfea` file.

    Examples
    --------
    >>> import midfea
    >>> model = midfea.load("model.midfea")  # doctest: +SKIP
    """
    saved = read_model(path)
    home = importlib.import_module(f"midfea.estimators.{HOMES[saved.class_name]}")
    cls = getattr(home, saved.class_name)
    unknown = sorted(set(saved.params) ^ set(cls().get_params(deep=False)))
    if unknown:
        raise ModelFileError(f"{path}: parameters differ from this midfea's: {', '.join(unknown)}")
    try:
        for params in (saved.params, saved.settings):
            if isinstance(params.get("selectivity"), dict):
                params["selectivity"] = NeuronSelectivity(**params["selectivity"])
            if isinstance(params.get("network"), dict):
                params["network"] = NetworkSettings(**params["network"])
        model = cls(**saved.params)
        _check_values(model)
        model.set_parts(saved)
        return model
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    except Exception as error:  # whatever a description can be made to do
        raise ModelFileError(f"{path}: the model's description is damaged ({error!r:.200})") from None


def _check_values(model: MidFea | MidFeaClassifier | MidFeaRegressor) -> None:
    """ValueError if a parameter cannot be used: a file may hold any."""
    model.check()
    if model.engine not in ENGINE_NAMES:
        raise ValueError(f"engine must be one of {', '.join(ENGINE_NAMES)}, got {model.engine!r:.50}")
    if not isinstance(model.device, str | None):
        raise ValueError(f"device must be None or a name, got {model.device!r:.50}")
    if model.precision not in ("exact", "fast"):
        raise ValueError(f'precision must be "exact" or "fast", got {model.precision!r:.50}')
    if isinstance(model, FittedClassifier):
        check_class_weight(model.class_weight)
        check_unknown(model.unknown)
    if model.n_jobs is not None:
        N_JOBS.check("n_jobs", model.n_jobs)
