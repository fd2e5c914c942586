"""One code for two kinds of arrays: numpy's, and torch's on any device.

numpy 2 and torch agree in most names: operators, slices, `einsum`, `where`, `x.sum(axis=1)`,
`x.clip(0)`, `asarray(x, dtype=..., device=x.device)`. Code that keeps to those takes the module from
its arguments, `xp = namespace(x)`. Here is that, and the little that they do not agree in.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import scipy.special
from numpy.typing import NDArray

Array = Any  # NDArray[Any], or torch.Tensor where torch is installed


def namespace(x: Array) -> Any:
    """torch for its tensors, numpy for all else; whoever made a tensor has imported torch."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(x, torch.Tensor) else np


def special(x: Array) -> Any:
    """scipy.special or torch.special: `expit` and `logit`."""
    xp = namespace(x)
    return scipy.special if xp is np else xp.special


def to_numpy(x: Array) -> NDArray[Any]:
    """The array itself, or a tensor's copy on the host."""
    return x if isinstance(x, np.ndarray) else x.cpu().numpy()


def contiguous(x: Array) -> Array:
    """The array with its rows one after the other in memory."""
    return np.ascontiguousarray(x) if isinstance(x, np.ndarray) else x.contiguous()


def ratio(a: Array, b: Array) -> Array:
    """a / b, 0 where b is not positive."""
    xp = namespace(b)
    return xp.where(b > 0, a / xp.where(b > 0, b, 1), 0)
