"""The plain engine: the stages one after the other. Slow, and correct by inspection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midfea import stages
from midfea.arrays import Array
from midfea.engines.chain import Chain, Scaled
from midfea.engines.prepared import ArrayChain, Codes, Projection, Search
from midfea.pictures.resize import Grey


class ReferenceChain(ArrayChain[NDArray[np.float32]]):
    """The chain by `midfea.stages`."""

    def descriptors(self, image: Grey) -> NDArray[np.float32]:
        """See `PreparedChain`."""
        return self.stage_outputs(image)["descriptors"]

    def stage_outputs(self, image: Grey) -> dict[str, NDArray[Any]]:
        """What the stages make of one image, one after the other, (height, width, channel) each."""
        chain = self.chain
        responses = stages.convolve(image, chain.filters, chain.padding)
        responses = np.abs(responses) if chain.rectify else responses
        normalized = stages.normalize_maps(responses, stages.flat_below(image, responses, chain.floor))
        maps = stages.soft_convolution(
            image, chain.filters, chain.padding, rectify=chain.rectify, floor=chain.floor
        )
        pooled_maps = stages.max_pool_3d(maps, chain.pairs)
        return {
            "convolution": responses,
            "normalized": normalized,
            "thresholded": stages.threshold_maps(normalized),
            "soft_convolution": maps,
            "max_pool_3d": pooled_maps,
            "descriptors": stages.assemble_descriptors(pooled_maps, chain.window),
        }

    def all_outputs(self, image: Grey) -> dict[str, NDArray[Any]]:
        """`stage_outputs`, with the image, the words, the pooled codes and the features."""
        outputs = self.stage_outputs(image)
        pooled = self.pooled(image)
        return {
            "image": image,
            **outputs,
            "words": stages.quantize(outputs["descriptors"], self.chain.words),
            "pooled": pooled,
            "features": self.project(pooled[None])[0],
        }

    def describe(self, scaled: Scaled) -> NDArray[np.float32]:
        """See `midfea.engines.walk.Steps`."""
        return self.descriptors(scaled.image)

    def encode(self, descriptors: NDArray[np.float32]) -> Codes:
        """See `midfea.engines.walk.Steps`."""
        chain = self.chain
        if chain.encoding == "vq":
            return Codes(stages.quantize(descriptors, chain.words)[..., None], None)
        if chain.encoding == "soft":
            return Codes(
                *stages.soft_codes(descriptors, chain.words, chain.n_neighbors, chain.sharpness)
            )
        return Codes(*stages.llc_codes(descriptors, chain.words, chain.n_neighbors))

    def pool(
        self, codes: Codes, scaled: Scaled, table: NDArray[np.float32] | None
    ) -> NDArray[np.float32]:
        """See `midfea.engines.walk.Steps`."""
        cells = stages.pool_levels(
            codes.words, codes.all_weights(), len(self.chain.words), scaled.levels, self.chain.pooling
        )
        if table is None:
            return cells
        return (np.maximum if self.chain.pooling == "max" else np.add)(table, cells)


class ReferenceEngine:
    """See `midfea.engines.prepared.Engine`."""

    def prepare(self, chain: Chain, projection: Projection | None = None) -> ReferenceChain:
        """See `Engine`."""
        return ReferenceChain(chain, projection)

    def search(self, words: NDArray[np.float32]) -> Search:
        """See `Engine`."""
        return lambda points: stages.quantize(points, words)

    @contextmanager
    def arrays(self) -> Iterator[Callable[[NDArray[Any]], Array]]:
        """See `Engine`."""
        yield np.asarray
