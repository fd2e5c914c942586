"""Runs in another interpreter, without midfea: times Scattering2D when asked to.

Usage: python -c TEXT images.npy. For "names" on standard input it answers with the methods it can
run, for a method's name with its milliseconds for each image, in one line of JSON each.
"""

import json
import sys
import time
from importlib.util import find_spec

import numpy as np

J = 3  # the largest scale is 2**J pixels
N_SINGLE = 4  # images one at a time
N_BATCH = 16  # images at once, which is where torch is at its best


def main() -> None:
    images = np.load(sys.argv[1]).astype(np.float32) / 255
    methods = {"scattering J=3 (kymatio, numpy)": numpy_round(images)}
    if find_spec("torch"):
        methods["scattering J=3 (kymatio, torch, batch of 16)"] = torch_round(images)
    for line in sys.stdin:
        name = line.strip()
        print(json.dumps(list(methods) if name == "names" else methods[name]()), flush=True)


def numpy_round(images):  # type: ignore[no-untyped-def]
    from kymatio.numpy import Scattering2D

    transform = Scattering2D(J=J, shape=images.shape[1:])
    return lambda: float(np.median([timed(transform, image) for image in images[:N_SINGLE]]))


def torch_round(images):  # type: ignore[no-untyped-def]
    import torch
    from kymatio.torch import Scattering2D

    torch.set_num_threads(1)
    transform = Scattering2D(J=J, shape=images.shape[1:])
    batch = torch.from_numpy(images[np.arange(N_BATCH) % len(images)])

    def one_round():  # type: ignore[no-untyped-def]
        with torch.no_grad():
            return timed(transform, batch) / N_BATCH

    return one_round


def timed(function, argument):  # type: ignore[no-untyped-def]
    begun = time.perf_counter()
    function(argument)
    return 1e3 * (time.perf_counter() - begun)


if __name__ == "__main__":
    main()
