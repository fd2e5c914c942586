"""`midfea bench`: time per stage, beside other features."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from midfea.cli.common import Seed, print_table


def bench(
    photos: Annotated[
        Path | None,
        typer.Argument(help="Folder of images. Default: the built-in set.", show_default=False),
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write the rows here.")] = None,
    size: Annotated[int, typer.Option(help="Images are made so many pixels square.", min=32)] = 150,
    images: Annotated[int, typer.Option(help="How many images to time.", min=1)] = 30,
    seed: Seed = 0,
) -> None:
    """Time each stage of the paper's system for one image, and other features in the same run.

    Settings are the paper's: 9 filters, 1000 words, the 1-2-4 pyramid, random projection to 3000, an NS
    layer of one neuron for each class. Peers are timed if they are installed (pip install 'midfea[plot]'
    for SIFT).
    """
    import numpy as np
    from PIL import Image

    from midfea import MidFeaClassifier, NeuronSelectivity
    from midfea.bench import time_peers, time_stages, time_throughput
    from midfea.datasets import load_surfaces
    from midfea.datasets.folder import find_images, read_images
    from midfea.files import check_writable, replacing
    from midfea.progress import progress_bars

    if json_file is not None:
        check_writable(json_file)
    with progress_bars():
        if photos is None:
            found = load_surfaces(n_per_class=-(-images // 6), size=size, random_state=seed).images
        else:
            paths = find_images([photos])
            if not paths:
                raise ValueError(f"{photos}: no images found")
            found = read_images(paths[:: max(1, len(paths) // images)], max_side=None)[0]
        square = [
            np.asarray(Image.fromarray(np.asarray(i, np.uint8)).resize((size, size))) for i in found
        ]
        square = square[:images]
        layer = NeuronSelectivity(max_iter=1, ridge=1e-3)
        model = MidFeaClassifier(preset="paper", selectivity=layer, max_side=None, random_state=seed)
        model.fit(square, np.arange(len(square)) % max(2, len(square) // 4))
        stages = time_stages(model, square)
        methods = time_throughput(model, square) + time_peers(square)
    print(f"One image of {size}x{size} pixels, one core:")
    print_table(
        ("stage", "ms", "paper, MATLAB"),
        [(r["stage"], f"{r['ms_per_image']:.2f}", f"{r['paper']:.0f}") for r in stages],
    )
    print(f"{len(square)} images one after the other:")
    print_table(
        ("method", "threads", "ms for each"),
        [(r["method"], str(r["threads"]), f"{r['ms_per_image']:.2f}") for r in methods],
    )
    if json_file is not None:
        with replacing(json_file) as temporary:
            temporary.write_text(json.dumps(stages + methods, indent=1) + "\n")
        print(f"Rows: {json_file}")
