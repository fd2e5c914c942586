"""Images in every kind of source, for the tests of `midfea.scale`."""

import io
import json
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from midfea.datasets import load_surfaces
from midfea.scale.extract import ABOUT, FORMAT, VERSION
from midfea.scale.manifest import Row, file_sha256
from midfea.scale.shards import Columns, Results, ShardFolder, cut

MODEL = Path(__file__).parent / "data" / "fast-v3.midfea"
DRAWN = load_surfaces(n_per_class=3, size=40, random_state=0).images


def encoded(number, form="PNG"):
    """The bytes of a small image file."""
    file = io.BytesIO()
    Image.fromarray(np.roll(DRAWN[number % len(DRAWN)], number, axis=1)).save(file, form)
    return file.getvalue()


def corrupt(number):
    """The content of a file that is no image, in one of five ways."""
    whole = encoded(number, "JPEG")
    return [
        b"",
        whole[: len(whole) // 4],
        b"no image at all",
        b"\xff\xd8\xff" + bytes(range(256)) * 3,
        encoded(number)[:60] + bytes(200),
    ][number % 5]


def write_photos(folder, n=12, bad=()):
    """A folder of two class folders with n images; those whose numbers are in `bad` are no images."""
    for number in range(n):
        path = folder / ("cats", "dogs")[number % 2] / f"{number:04}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(corrupt(number) if number in bad else encoded(number))
    return folder


def write_tar(path, files):
    """files : content by name"""
    with tarfile.open(path, "w") as tar:
        for name, content in files.items():
            about = tarfile.TarInfo(name)
            about.size = len(content)
            tar.addfile(about, io.BytesIO(content))
    return path


def write_zip(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def write_parquet(path, images, labels=None, metadata=None, **options):
    columns = {"image": images} | ({} if labels is None else {"label": labels})
    pq.write_table(pa.table(columns).replace_schema_metadata(metadata), path, **options)
    return path


def write_features(folder, features, labels, shard_size, model=MODEL, dtype="float32"):
    """A folder of features as midfea extract writes it, with these rows."""
    folder.mkdir()
    columns = Columns(features.shape[1], 0, dtype)
    shards = ShardFolder(folder, columns)
    shards.prepare()
    for shard in cut(len(features), shard_size):
        ids = range(shard.first, shard.first + shard.n_images)
        rows = [Row(i, f"{i}.jpg", labels[i]) for i in ids]
        shards.write(shard, Results(rows, [features[shard.first :][: shard.n_images]]))
    settings = {"model_sha256": file_sha256(model), "dtype": dtype, "shard_size": shard_size}
    about = {
        "format": FORMAT,
        "version": VERSION,
        "settings": settings,
        "images": len(features),
        "classes": [],
    }
    about |= {"n_features": features.shape[1], "model": str(model)}
    (folder / ABOUT).write_text(json.dumps(about))
    return folder
