"""Makes fuzz/corpus anew: small files that once broke something, or would break others.

python fuzz/make_corpus.py
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator

import numpy as np
from PIL import Image
from safetensors.numpy import save

from harness import CORPUS
from midfea import MidFea
from midfea.datasets import load_surfaces
from models import ModelParts, parts_of
from scratch import folder


def main() -> None:
    for name, content in [*_images(), *_models(), *_zips()]:
        path = CORPUS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        print(f"{name:40} {len(content)} bytes")


def _images() -> Iterator[tuple[str, bytes]]:
    for name, value in (("missing", -3.4028235e38), ("nan", np.nan), ("infinite", np.inf)):
        pixels = np.full((8, 8), 9, dtype=np.float32)
        pixels[0, 0] = value
        yield f"images/{name}.tif", _file(Image.fromarray(pixels), "TIFF")
    yield "images/eps.jpg", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n{ } loop\n"
    yield "images/scans.jpg", scans_of(64, 60)
    yield "images/bomb.png", png_of(60_000, 60_000, 9)
    yield "images/wide.png", png_of(2**31 - 1, 1, 0)
    yield "images/cut.gif", _file(Image.new("P", (9, 9)), "GIF")[:-3]
    yield "images/bomb.tif", _file(Image.new("1", (60_000, 60_000)), "TIFF", compression="group4")[:200]
    yield "images/long.ppm", b"P6 " + b"9" * 500 + b" 1 255\n"


def png_of(width: int, height: int, n_rows: int) -> bytes:
    """A black PNG file, made without its pixels in memory; it ends after `n_rows`."""
    packer, data, row = zlib.compressobj(9), bytearray(), bytes(1 + min(width, 10**6))
    for _ in range(n_rows):
        data += packer.compress(row)
    data += packer.flush()

    def chunk(kind: bytes, content: bytes) -> bytes:
        checked = kind + content
        return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", bytes(data)) + chunk(b"IEND", b"")


def scans_of(side: int, n_scans: int) -> bytes:
    """A progressive JPEG file whose last scan stands there many times."""
    content = _file(Image.new("L", (side, side), 90), "JPEG", progressive=True)
    last = content.rindex(b"\xff\xda")
    return content[:last] + n_scans * content[last:-2] + content[-2:]


def _file(image: Image.Image, format: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def _models() -> Iterator[tuple[str, bytes]]:
    """Files whose checksum agrees, and whose description does not fit; and some without end."""
    tiny = {"n_filters": 2, "filter_size": 2, "window": 1, "n_words": 3, "n_components": 3}
    images = load_surfaces(n_per_class=1, size=48, random_state=0).images
    model = MidFea(**tiny, n_samples=50, random_state=0, partition={"size": 24, "step": 24})
    model.fit(images).save(folder() / "tiny.midfea")
    description, arrays = parts_of((folder() / "tiny.midfea").read_bytes())
    changes = {
        "cells": {"partition": [9, 9]},  # read beyond the end of the projection
        "scaled_cells": {"scales": [2.0]},  # the same
        "no_scales": {"scales": "auto"},
        "tiny_scale": {"scales": [1e-320]},
        "pairs": {"pairs": -0.0},  # compiled for ten seconds
    }
    for name, change in changes.items():
        changed = description | {"settings": description["settings"] | change}
        yield f"model/{name}.midfea", ModelParts(changed, arrays).sealed()
    changed = description | {"params": description["params"] | {"device": {}}}
    yield "model/device.midfea", ModelParts(changed, arrays).sealed()
    falling = arrays | {"projection.indptr": arrays["projection.indptr"].copy()}
    falling["projection.indptr"][-1] = 0  # read beyond the end, in scipy
    yield "model/falling.midfea", ModelParts(description, falling).sealed()
    yield "model/deep.midfea", save({"a": np.zeros(2)}, {"midfea": "[" * 2000})


def _zips() -> Iterator[tuple[str, bytes]]:
    image = _file(Image.new("L", (20, 20), 7), "PNG")

    def packed(name: str, method: int) -> bytes:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", method) as archive:
            archive.writestr(name, image)
        return file.getvalue()

    stored = packed("a/1.png", zipfile.ZIP_STORED)
    directory = stored.rindex(b"PK\x01\x02")
    end = stored.rindex(b"PK\x05\x06")
    yield "zip/empty_name.zip", stored.replace(b"a/1.png", b"\0/1.png")
    yield "zip/not_utf8.zip", _patched(stored, directory + 8, b"\0\x08").replace(b"a/1", b"a\xff1")
    yield "zip/version.zip", _patched(stored, directory + 6, b"\xff\0")
    yield "zip/negative_offset.zip", _patched(stored, end + 16, struct.pack("<I", directory + 99))
    lzma = packed("a/1.png", zipfile.ZIP_LZMA)
    yield "zip/lzma.zip", _patched(lzma, 30 + 7 + 4, b"\xff\xff\xff\xff\xff\xff")
    bzip = packed("a/1.png", zipfile.ZIP_BZIP2)
    yield "zip/bzip2.zip", _patched(bzip, 30 + 7 + 4, b"\xff\xff\xff\xff\xff\xff")


def _patched(content: bytes, at: int, piece: bytes) -> bytes:
    return content[:at] + piece + content[at + len(piece) :]


if __name__ == "__main__":
    main()
