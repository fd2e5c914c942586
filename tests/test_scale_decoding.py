"""Decode processes: pictures and failures in the order of the manifest, few of them in memory."""

import io
import os
import time
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import midfea
from many import MODEL, encoded, write_photos
from midfea.engines import EngineSettings
from midfea.pictures.picture import Picture
from midfea.scale.decoder import Decoder, Failure, View
from midfea.scale.decoding import (
    LARGE_PICTURES_AHEAD,
    PARTS_AHEAD,
    decode_in_processes,
    images_in_part,
)
from midfea.scale.handover import SHARED_BYTES
from midfea.scale.manifest import Manifest, write_manifest
from midfea.scale.shards import cut
from midfea.scale.worker import Job, PictureModel

N_PHOTOS, BAD = 150, (0, 9, 64, 149)
VIEW = View(None, 7, False)


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    write_photos(folder / "p", N_PHOTOS, BAD)
    write_manifest([str(folder / "p")], folder / "m.parquet")
    return folder / "m.parquet"


class Draws(Decoder):
    """Notes each image that is asked for, and draws pictures of so many pixels in place of it."""

    def __init__(self, folder, side, view=VIEW):
        super().__init__(view)
        self._folder, self._side = folder, side

    def decode(self, address):
        (self._folder / f"{os.path.basename(address)}").touch()
        return Picture(np.full((self._side, self._side), len(address), np.uint8))


class Sleeps(Draws):
    """Takes its time."""

    def decode(self, address):
        time.sleep(0.02)
        return super().decode(address)


class Fails(Decoder):
    """Its process ends."""

    def decode(self, address):
        os._exit(3)


def planes(picture):
    return [plane.tolist() for plane in (picture.grey, *picture.colours)]


@pytest.mark.parametrize("shard_size", [7, 100])
def test_each_row_once_in_its_order_as_in_this_process(manifest, shard_size):
    rows = Manifest(manifest).rows(0, N_PHOTOS)
    shards = cut(N_PHOTOS, shard_size)
    with closing(decode_in_processes(Decoder(VIEW), manifest, shards, 2)) as decoded:
        found = list(decoded)
    assert [each.row for each in found] == rows
    here = Decoder(VIEW)
    for row, result in found:
        expected = here.decode(row.address)
        if isinstance(expected, Failure):
            assert result == expected
        else:
            assert planes(result) == planes(expected) and result.white == expected.white
    assert sum(isinstance(each.result, Failure) for each in found) == len(BAD)


@pytest.mark.parametrize("side", [400, 3000])  # through shared memory; through the pipe
def test_few_pictures_are_in_memory(manifest, tmp_path, side):
    """While nobody takes pictures, and after some have been taken; all in all there are 150."""
    assert (side**2 > SHARED_BYTES) == (side == 3000)
    view = VIEW if side == 3000 else View(400, 7, False)
    in_part, n_ahead = (1, LARGE_PICTURES_AHEAD) if side == 3000 else (2, PARTS_AHEAD)
    assert images_in_part(view) == in_part
    held = (n_ahead + 2 * 2) * in_part  # taken; of each process one handed over, one being made
    decoder, shards = Draws(tmp_path, side, view), cut(N_PHOTOS, 50)
    with closing(decode_in_processes(decoder, manifest, shards, 2)) as decoded:
        for n_taken, _ in enumerate(decoded, start=1):
            if n_taken in (1, 30):
                n_drawn = settled(tmp_path)
                assert n_taken < n_drawn <= n_taken + in_part + held < N_PHOTOS
            if n_taken == 30:
                break


def test_processes_do_not_wait_for_each_other(manifest, tmp_path):
    """Each has done its rows before its turn comes: two are nearly twice as fast as one."""
    seconds = []
    for n in (1, 2):
        (tmp_path / str(n)).mkdir()
        decoder = Sleeps(tmp_path / str(n), 20, View(150, 7, False))
        with closing(decode_in_processes(decoder, manifest, cut(N_PHOTOS, 50), n)) as decoded:
            next(decoded)
            begun = time.monotonic()
            assert sum(1 for _ in decoded) == N_PHOTOS - 1
            seconds.append(time.monotonic() - begun)
    assert seconds[1] < 0.75 * seconds[0]


def settled(folder):
    """The number of files, once it does not grow any more."""
    before, now = -1, len(os.listdir(folder))
    while now != before:
        time.sleep(0.7)
        before, now = now, len(os.listdir(folder))
    return now


def test_decoding_goes_on_ahead_of_the_shard_that_is_computed(manifest, tmp_path):
    shards = cut(N_PHOTOS, 10)
    decoder = Draws(tmp_path, 20, View(150, 7, False))
    with closing(decode_in_processes(decoder, manifest, shards, 2)) as decoded:
        next(decoded)
        assert settled(tmp_path) > 2 * 10


@pytest.mark.parametrize("name", ["finetuned-v1", "fast-v3"])
def test_colours_are_kept_where_a_model_looks_at_them(tmp_path, name):
    """By the network of the first, whose scores would be others; the second has no use for them."""
    model = MODEL.with_name(f"{name}.midfea")
    for number in range(3):
        pixels = np.array(Image.open(io.BytesIO(encoded(number))))
        tinted = np.stack([pixels, pixels // 2, 255 - pixels], axis=2)
        Image.fromarray(tinted).save(tmp_path / f"{number}.png")
    files = sorted(tmp_path.glob("*.png"))
    job = Job(tmp_path / "m", model, tmp_path, "both", "float32", EngineSettings())
    fitted = PictureModel(job)
    pictures = [Decoder(fitted.view).decode(str(file)) for file in files]
    assert [len(picture.colours) for picture in pictures] == [2 if name == "finetuned-v1" else 0] * 3
    expected = midfea.load(model).decision_function(files)
    np.testing.assert_allclose(fitted.values(pictures).scores, expected, atol=1e-4)
    of_features = PictureModel(replace(job, what="features"))
    assert not of_features.view.coloured


def test_a_process_that_ends_is_said(manifest):
    with (
        closing(decode_in_processes(Fails(VIEW), manifest, cut(N_PHOTOS, 50), 2)) as decoded,
        pytest.raises(ChildProcessError, match="a decode process ended, perhaps for want of memory"),
    ):
        next(decoded)
