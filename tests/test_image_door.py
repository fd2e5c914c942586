"""The door for image files: whatever a file is, it is read or refused, soon, and within the memory."""

import io
import os
import resource
import signal
import struct
import subprocess
import sys
import threading
import time
import zlib

import numpy as np
import pytest
from PIL import Image

from midfea.engines.cpu.search import WordIndex
from midfea.pictures import worker
from midfea.pictures.images import Images
from midfea.pictures.limits import ImageLimits
from midfea.pictures.picture import make_picture, to_grey
from midfea.pictures.reading import ImageError, open_image, read_header, read_image

RGB = np.random.RandomState(0).randint(0, 256, (40, 60, 3)).astype(np.uint8)


def png_of(width, height, mode=2, n_rows=None):
    """A black PNG file of any size, made without its pixels in memory; cut short after `n_rows`."""
    channels = {0: 1, 2: 3, 6: 4}[mode]
    packer, data = zlib.compressobj(1), bytearray()
    row = bytes(1 + width * channels)
    for _ in range(height if n_rows is None else n_rows):
        data += packer.compress(row)
    data += packer.flush()

    def chunk(kind, content):
        checked = kind + content
        return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))

    header = struct.pack(">IIBBBBB", width, height, 8, mode, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def jpeg_of_scans(side, n_scans):
    """A progressive JPEG file whose last scan stands there many times."""
    file = io.BytesIO()
    Image.new("L", (side, side), 90).save(file, "JPEG", progressive=True)
    content = file.getvalue()
    last = content.rindex(b"\xff\xda")
    return content[:last] + (n_scans * content[last:-2]) + content[-2:]


@pytest.mark.parametrize("name", ["evil.jpg", "evil.eps", "evil.png"])
def test_no_program_is_started_by_a_picture(tmp_path, name):
    """PostScript would start Ghostscript, and never end."""
    (tmp_path / name).write_text(
        "%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 100 100\n%%EndComments\n{ } loop\n%%EOF\n"
    )
    start = time.monotonic()
    with pytest.raises(ImageError, match=f"{name}: not a readable image"):
        read_image(tmp_path / name)
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("value", [-3.4028235e38, 3e38, 1e31, np.nan, np.inf])
def test_marks_of_missing_pixels_are_refused(tmp_path, value):
    """GDAL marks missing pixels with the smallest float32; that used to crash the search for words."""
    image = to_grey(RGB).astype(np.float32)
    image[:20, :20] = value
    Image.fromarray(image).save(tmp_path / "x.tif")
    with pytest.raises(ImageError, match=r"x\.tif.*contains .*replace the missing pixels"):
        Images([tmp_path / "x.tif"]).picture(0, None, 1)


@pytest.mark.parametrize("exponent", [-140, -100, -30, 25, 90])
def test_floats_of_any_unit_give_the_same_picture(exponent):
    image = to_grey(RGB).astype(np.float64)
    image[0, 0] = 255
    scaled = make_picture(np.ldexp(image, exponent), None).grey
    assert scaled.dtype == np.float32
    np.testing.assert_allclose(scaled / scaled.max(), image / 255, rtol=1e-6)
    assert 2.0**-20 <= scaled.max() <= 2.0**20
    np.testing.assert_array_equal(make_picture(image, None).grey, image.astype(np.float32))


def test_numbers_that_float32_does_not_hold(tmp_path):
    assert np.isfinite(make_picture(np.full((20, 20), 2**64 - 1, dtype=np.uint64), None).grey).all()
    with pytest.raises(ImageError, match=r"a number beyond 1e\+30"):
        make_picture(np.full((20, 20), 1e300), None)


@pytest.mark.parametrize("fill", [np.nan, np.inf, -np.inf, 3e38, 1e-40, 1e20])
@pytest.mark.parametrize(
    ("n_words", "dim", "scale"), [(1, 7, 1), (65, 144, 1e-40), (300, 72, 1), (65, 9, 0)]
)
def test_the_search_always_finds_words_that_exist(fill, n_words, dim, scale):
    """Whatever comes, no index lies outside: the kernels after it rely on that."""
    draw = np.random.RandomState(0)
    index = WordIndex((draw.rand(n_words, dim) * scale).astype(np.float32))
    points = draw.rand(70, dim).astype(np.float32)
    points[::3], points[1::5, 0] = fill, fill
    for k in {1, min(5, n_words), n_words}:
        found, rivals = index.nearest_and_rivals(points, k)
        assert found.min() >= 0
        assert found.max() < n_words
        assert rivals.max() < n_words


def test_the_search_refuses_what_does_not_fit():
    index = WordIndex(np.eye(8, dtype=np.float32))
    for points, k in [(np.zeros((4, 9)), 1), (np.zeros((4, 8)), 9), (np.zeros((4, 8)), 0)]:
        with pytest.raises(ValueError, match="nearest of"):
            index.nearest(points, k)


PEAK = """
import resource, sys
from midfea.datasets.folder import read_photos
from pathlib import Path
photos, skipped = read_photos([Path(p) for p in sys.argv[1:]], 150, thumbnails=True)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
print(len(photos), len(skipped), peak, *(s.reason for s in skipped))
"""


def test_bombs_stay_within_a_gigabyte(tmp_path):
    """Files of a few kilobytes, just below and far above the limit of pixels, several at a time."""
    contents = {
        "below.png": png_of(7700, 7700),
        "transparent.png": png_of(7700, 7700, mode=6),
        "above.png": png_of(13000, 13000, mode=0, n_rows=9),
        "far_above.png": png_of(60000, 60000, mode=0, n_rows=9),
    }
    contents["again.png"] = contents["transparent.png"]
    paths = [tmp_path / name for name in contents]
    for path in paths:
        path.write_bytes(contents[path.name])
    assert sum(map(len, contents.values())) < 3e6
    result = subprocess.run(
        [sys.executable, "-c", PEAK, *map(str, paths)], capture_output=True, text=True, check=True
    )
    n_read, n_skipped, peak, *reasons = result.stdout.split(maxsplit=3)
    assert (n_read, n_skipped) == ("3", "2")
    assert "MIDFEA_MAX_MEGAPIXELS" in reasons[0]
    assert float(peak) < 1000  # MB


def test_a_jpeg_of_thousands_of_scans(tmp_path):
    (tmp_path / "many.jpg").write_bytes(jpeg_of_scans(2000, 5000))
    (tmp_path / "usual.jpg").write_bytes(jpeg_of_scans(2000, 2))
    start = time.monotonic()
    with pytest.raises(ImageError, match="scans of all its pixels"):
        read_image(tmp_path / "many.jpg")
    assert time.monotonic() - start < 1
    assert read_image(tmp_path / "usual.jpg").shape == (2000, 2000)
    (tmp_path / "small.jpg").write_bytes(jpeg_of_scans(64, 3000))
    start = time.monotonic()
    assert read_image(tmp_path / "small.jpg").shape == (64, 64)
    assert time.monotonic() - start < 5


@pytest.mark.parametrize(("name", "value"), [("MEGAPIXELS", "0.001"), ("MEGABYTES", "0.001")])
def test_limits_are_the_users(tmp_path, monkeypatch, name, value):
    Image.fromarray(RGB).save(tmp_path / "x.png")
    monkeypatch.setenv(f"MIDFEA_MAX_{name}", value)
    with pytest.raises(ImageError, match=rf"x\.png: has .*MIDFEA_MAX_{name}"):
        read_image(tmp_path / "x.png")
    monkeypatch.setenv(f"MIDFEA_MAX_{name}", "lots")
    with pytest.raises(ValueError, match=f"MIDFEA_MAX_{name} must be a number above zero, got 'lots'"):
        read_image(tmp_path / "x.png")


def test_only_regular_files(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    cases = {
        tmp_path / "pipe.png": "not a regular file",
        tmp_path: "is a folder",
        "/dev/zero": "not a regular file",
        tmp_path / "missing.png": "no such file",
        tmp_path / ("x" * 300): "cannot be read",
        "zero\0byte.png": "cannot be read",
    }
    for path, message in cases.items():
        with pytest.raises(ImageError, match=message):
            read_image(path)
    (tmp_path / "empty.png").touch()
    with pytest.raises(ImageError, match="is empty"):
        read_image(tmp_path / "empty.png")


@pytest.mark.parametrize("ending", ["webp", "tif", "jp2", "avif"])
def test_formats_that_are_decoded_in_another_process(tmp_path, ending):
    path = tmp_path / f"x.{ending}"
    options = {"webp": {"lossless": True}, "avif": {"quality": 100, "subsampling": "4:4:4"}}
    Image.fromarray(RGB).save(path, **options.get(ending, {}))
    with Image.open(path) as image:
        np.testing.assert_array_equal(read_image(path), np.asarray(image.convert("RGB")))
    assert read_header(path)[1:] == (60, 40)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ImageError, match="not a readable image"):
        read_image(path)


def test_a_decoder_that_hangs_or_dies_is_replaced(tmp_path):
    Image.fromarray(RGB).save(tmp_path / "x.webp")
    content = (tmp_path / "x.webp").read_bytes()
    one = worker.Worker()
    os.kill(one._process.pid, signal.SIGSTOP)
    with pytest.raises(ImageError, match="took more than 1 s, and was ended"):
        one.ask(content, {"what": "header"}, 1 - worker.START_SECONDS)
    assert not one.alive
    other = worker.Worker()
    other._process.kill()
    with pytest.raises(ImageError, match="crashed"):
        other.ask(content, {"what": "header"}, 1)
    assert read_image(tmp_path / "x.webp").shape == RGB.shape


def test_a_decoder_has_little_memory(tmp_path, monkeypatch):
    """The limit is the system's: what the decoder does not get, it cannot take."""
    monkeypatch.setenv("MIDFEA_MAX_MEGAPIXELS", "1000")
    Image.new("RGB", (16000, 16000)).save(tmp_path / "x.tif", compression="tiff_deflate")
    start = time.monotonic()
    with pytest.raises(ImageError, match=r"not a readable image|hundreds of millions"):
        read_image(tmp_path / "x.tif")
    assert time.monotonic() - start < 30
    assert worker.MAX_MEMORY_BYTES <= 1 << 30


def test_large_images_take_turns(tmp_path):
    (tmp_path / "x.png").write_bytes(png_of(6000, 6000, mode=0))
    inside, most = 0, 0
    lock = threading.Lock()

    def read():
        nonlocal inside, most
        with open_image(tmp_path / "x.png"):
            with lock:
                inside += 1
                most = max(most, inside)
            time.sleep(0.1)
            with lock:
                inside -= 1

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == ImageLimits().max_pixels // 6000**2


def test_the_header_says_what_is_seen(tmp_path):
    """A photograph taken upright is as high as it will be shown, in the header and decoded."""
    for ending in ("jpg", "webp", "png", "tif"):
        exif = Image.Exif()
        exif[0x0112] = 6
        Image.fromarray(RGB).save(tmp_path / f"x.{ending}", exif=exif)
        header, pixels = read_header(tmp_path / f"x.{ending}"), read_image(tmp_path / f"x.{ending}")
        assert (header.height, header.width) == pixels.shape[:2] == (60, 40)


def test_memory_of_this_process_is_not_limited():
    assert resource.getrlimit(resource.RLIMIT_DATA)[0] == resource.RLIM_INFINITY
