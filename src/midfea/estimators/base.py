"""What the three image estimators share: the parameters, and the fitted feature extractor."""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d

from midfea.engines import EngineSettings, Projection, get_engine, min_side
from midfea.estimators.presets import check_preset, preset_values
from midfea.estimators.takes_images import TakesImages
from midfea.learning.codebook import learn_extractor
from midfea.learning.extractor import FeatureExtractor
from midfea.learning.settings import ChainSettings
from midfea.model_file import SavedModel, save_model
from midfea.parallel import n_threads
from midfea.pictures.images import Images, Pictures
from midfea.pictures.mosaic import data_uri, mosaic
from midfea.pictures.picture import Picture
from midfea.progress import progress_bars

# In notebooks
MAX_FILTERS_DRAWN = 32
SCREEN_PIXELS = 4  # for one pixel of a filter


@dataclass(eq=False, repr=False, kw_only=True)
class MidFeaBase(ChainSettings, TakesImages, BaseEstimator):
    """Parameters and feature extractor of Section 2.

    Parameters
    ----------
    preset : sets the parameters that are not given beside it; "paper" is the defaults.
    engine : "cpu", "torch" (for GPUs; extra `torch`) or "reference" (plain NumPy); same
        results up to rounding.
    device : where the torch engine works, such as "cuda:1"; None means CUDA if there is a device.
    precision : "exact", or "fast" for the torch engine on CUDA: VQ may take a word that is farther by
        a rounding error of float16, see `midfea.engines.torch.fused`.
    n_jobs : threads; None means all cores.
    random_state : seed; the same seed gives the same features.
    verbose : show progress bars.

    Attributes
    ----------
    filters_ : (n_filters, filter_size, filter_size)
    codebook_ : (n_words, d)
    settings_ : dict, the parameters at the time of fitting, with the values that "auto" stands for
    extractor_ : the fitted `midfea.learning.extractor.FeatureExtractor`
    projection_ : `midfea.engines.Projection`, its `matrix` (n_codes, n_components) and `mean` or None
    """

    preset: Literal["paper", "fast", "best"] | None = None
    engine: Literal["auto", "reference", "cpu", "torch"] = "auto"
    device: str | None = None
    precision: Literal["exact", "fast"] = "exact"
    n_jobs: int | None = None
    random_state: int | np.random.RandomState | None = None
    verbose: bool = False

    def __new__(cls, **given: Any) -> Any:
        """Remember which parameters were given, for `__post_init__`."""
        self = super().__new__(cls)
        if given:  # copies and pickles are made without
            self._given = given
        return self

    def __post_init__(self) -> None:
        """A preset sets its parameters; what is given in the same call wins."""
        given = self.__dict__.pop("_given", {})
        for name, value in preset_values(self.preset, self._defaults()).items():
            if name not in given:
                setattr(self, name, value)

    def set_params(self, **params: Any) -> Self:
        """Set parameters; with `preset`, also its parameters that are not given themselves."""
        bundle = preset_values(params.get("preset"), self._defaults())
        super().set_params(**(bundle | params))
        return self

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        return {field.name: field.default for field in fields(cls)}

    # -- the fitted parts ---------------------------------------------------------------------------

    @property
    def min_side(self) -> int:
        """Pixels an image needs on its shorter side."""
        scales = (1.0,) if self.scales == "auto" else self.scales
        return min_side(self.filter_size, self.window, self.padding, scales)

    @property
    def filters_(self) -> NDArray[np.float32]:
        """The low-level filters, (n_filters, filter_size, filter_size)."""
        return self.extractor_.chain.filters

    @property
    def codebook_(self) -> NDArray[np.float32]:
        """The words, (n_words, d)."""
        return self.extractor_.chain.words

    @property
    def projection_(self) -> Projection:
        """From pooled codes to features."""
        return self.extractor_.projection

    def features(self, images: Any) -> NDArray[np.float32]:
        """Mid-level features of images, (n, n_features) float32, rows of unit length."""
        check_is_fitted(self, "extractor_")
        with progress_bars(self.verbose):
            extractor = self._extractor()
            return extractor.transform(extractor.pictures(Images(images)), self._n_threads())

    def feature_maps(self, image: Any) -> dict[str, NDArray[Any]]:
        """The outputs of every stage for one image, by the plain stages.

        Returns
        -------
        maps : dict with "image" (grey), "convolution", "normalized", "thresholded",
            "soft_convolution", "max_pool_3d", "descriptors" (all: height, width, channel), "words"
            (the nearest word of each descriptor), "pooled", "features" and, with colour,
            "colour_histogram".
        """
        check_is_fitted(self, "extractor_")
        extractor = self._extractor()
        return extractor.stage_outputs(extractor.pictures(Images([image]))[0])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one `.midfea` file; read it again with `midfea.load`."""
        check_is_fitted(self, "extractor_")
        save_model(self._saved(), path)

    def _saved(self) -> SavedModel:
        return SavedModel(
            class_name=type(self).__name__,
            params=self.get_params(deep=False),
            settings=self.settings_,
            extractor=self.extractor_,
        )

    def set_parts(self, saved: SavedModel) -> None:
        """Take the fitted parts of a model file."""
        self.extractor_: FeatureExtractor = saved.extractor
        self.settings_: dict[str, Any] = saved.settings

    def _html_repr(self) -> str:
        """For notebooks: scikit-learn's picture, and what a fitted estimator has learned."""
        page = str(super()._html_repr())
        if not hasattr(self, "extractor_"):
            return page
        drawn = self.filters_[:MAX_FILTERS_DRAWN]
        limit = float(np.abs(drawn).max())
        row = mosaic(drawn, len(drawn), low=-limit, high=limit)
        return (
            f"{page}<p>{html.escape(', '.join(self._facts()))}</p>"
            f'<img alt="learned filters" src="{data_uri(row)}" '
            f'width="{SCREEN_PIXELS * row.shape[1]}" style="image-rendering: pixelated">'
        )

    def _facts(self) -> list[str]:
        colour = self.extractor_.colour
        colours = [] if colour is None else [f"{len(colour.words)} colour words"]
        return [f"{len(self.filters_)} filters", f"{len(self.codebook_)} words", *colours]

    @property
    def _n_features_out(self) -> int:
        return self.extractor_.n_features

    # -- for the classes that inherit -----------------------------------------------------------------

    def _check_parameters(self) -> None:
        check_preset(self.preset)
        self.check()
        get_engine(self.engine, self.device if self.engine == "torch" else None)
        if self.precision not in ("exact", "fast"):
            raise ValueError(f'precision must be "exact" or "fast", got {self.precision!r}')

    def _pictures(self, images: Any) -> Pictures:
        return Pictures(Images(images), self.max_side, self.min_side)

    def _check_targets(self, y: Any, n_images: int, what: str) -> NDArray[Any]:
        """One target for each image; `what` they are: labels, or numbers."""
        if y is None:
            name = type(self).__name__
            raise ValueError(
                f"{what} are needed: {name} requires y to be passed, but the target y is None"
            )
        targets = column_or_1d(y, warn=True)
        if len(targets) != n_images:
            raise ValueError(
                f"got {n_images} images but {len(targets)} {what}: Found input variables with "
                f"inconsistent numbers of samples: [{n_images}, {len(targets)}]"
            )
        return targets

    def _learn_extractor(self, pictures: Sequence[Picture]) -> None:
        """Filters, codebook and projection, from the training images without their labels."""
        settings, rng = self.without_auto(), check_random_state(self.random_state)
        engine, n_threads = self._engine_settings(), self._n_threads()
        self._take_extractor(learn_extractor(pictures, settings, engine, n_threads, rng), settings)

    def _take_extractor(self, extractor: FeatureExtractor, settings: ChainSettings) -> None:
        chain = extractor.chain
        in_force = replace(settings, scales=chain.scales, n_words=len(chain.words))
        self.extractor_ = extractor
        self.settings_ = self.get_params(deep=False) | asdict(in_force)

    def _extractor(self) -> FeatureExtractor:
        """The fitted extractor, on the engine that the parameters name now."""
        self.extractor_ = self.extractor_.on(self._engine_settings())
        return self.extractor_

    def _engine_settings(self) -> EngineSettings:
        return EngineSettings(self.engine, self.device, self.precision)

    def _seed(self) -> int:
        """A whole number for what is drawn apart from `random_state`'s own sequence."""
        if isinstance(self.random_state, np.random.RandomState):
            return int(self.random_state.randint(2**31 - 1))
        return 0 if self.random_state is None else int(self.random_state)

    def _n_threads(self) -> int:
        return n_threads(self.n_jobs)
