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


READ = """
import sys
from midfea.pictures.reading import ImageError, read_image
try:
    read_image(sys.argv[1])
except ImageError as error:
    print(error)
"""


@pytest.mark.parametrize("name", ["evil.jpg", "evil.eps", "evil.png"])
def test_no_program_is_started_by_a_picture(tmp_path, name):
    """PostScript would start Ghostscript, and never end; here a program of its name leaves a mark."""
    (tmp_path / name).write_text(
        "%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 100 100\n%%EndComments\n{ } loop\n%%EOF\n"
    )
    (tmp_path / "gs").write_text(f"#!/bin/sh\ntouch '{tmp_path}/started'\n")
    (tmp_path / "gs").chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = [sys.executable, "-c", READ, tmp_path / name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert f"{name}: not a readable image (of no format that midfea reads)" in done.stdout
    assert not (tmp_path / "started").exists()


def test_a_file_that_only_begins_like_a_known_format(tmp_path):
    """This one begins like AVIF, and is a whole PCX file for whoever tries all of Pillow's formats."""
    file = io.BytesIO()
    Image.new("L", (40, 40)).save(file, "PCX")
    content = bytearray(file.getvalue())
    left, top = struct.unpack("<2H", b"ftyp")
    content[4:12] = struct.pack("<4H", left, top, left + 39, top + 39)
    with Image.open(io.BytesIO(content)) as image:
        image.load()
        assert (image.format, image.size) == ("PCX", (40, 40))
    (tmp_path / "x.avif").write_bytes(content)
    for read in (read_image, read_header):
        with pytest.raises(ImageError, match=r"x\.avif: not a readable image"):
            read(tmp_path / "x.avif")


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


@pytest.mark.parametrize("fill", [np.nan, np.inf, -np.inf, 3e38, 1e20])
def test_what_is_no_point_has_no_rivals(fill):
    """A point of infinite length gets some word; nothing else is made of its numbers."""
    draw = np.random.RandomState(0)
    index = WordIndex(draw.rand(300, 72).astype(np.float32))
    for k in (1, 5):
        assert (index.nearest_and_rivals(np.full((70, 72), fill), k)[1] == -1).all()


def test_the_search_refuses_what_does_not_fit():
    index = WordIndex(np.eye(8, dtype=np.float32))
    for points, k in [(np.zeros((4, 9)), 1), (np.zeros((4, 8)), 9), (np.zeros((4, 8)), 0)]:
        with pytest.raises(ValueError, match="nearest of"):
            index.nearest(points, k)


PEAK = """
import sys
from midfea.datasets.folder import read_photos
from pathlib import Path
photos, skipped = read_photos([Path(p) for p in sys.argv[1:]], 150, thumbnails=True)
status = Path("/proc/self/status").read_text()  # getrusage begins with the parent's peak
peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1000
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


def test_a_long_side_is_refused(tmp_path):
    """Few pixels, but reducing them to 150 on the longer side took a gigabyte."""
    (tmp_path / "x.png").write_bytes(png_of(1, 300_000, mode=0))
    with pytest.raises(ImageError, match="has 1x300000 pixels, more than 200000 on a side"):
        read_image(tmp_path / "x.png")


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


def test_scans_are_counted_in_a_file_with_two_views(tmp_path):
    """Cameras with two lenses write such JPEG files, and Pillow has another name for them."""
    file = io.BytesIO()
    view = Image.new("L", (2000, 2000), 90)
    view.save(file, "MPO", save_all=True, append_images=[view], progressive=True)
    content = file.getvalue()
    first, last = content.index(b"\xff\xda"), content.index(b"\xff\xd9")
    (tmp_path / "two.jpg").write_bytes(content)
    assert read_image(tmp_path / "two.jpg").shape == (2000, 2000)
    scans = content[content.rindex(b"\xff\xda", first, last) : last]
    (tmp_path / "many.jpg").write_bytes(content[:last] + 300 * scans + content[last:])
    with pytest.raises(ImageError, match="scans of all its pixels"):
        read_image(tmp_path / "many.jpg")


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


DECODERS = """
import os, sys
from midfea.pictures.reading import read_image
read_image(sys.argv[1])
children = open(f"/proc/self/task/{os.getpid()}/children").read().split()
print(*(open(f"/proc/{child}/cmdline").read() for child in children))
"""


@pytest.mark.parametrize(("ending", "isolated"), [("png", False), ("webp", True), ("tif", True)])
def test_flawed_decoders_do_not_run_in_this_process(tmp_path, ending, isolated):
    Image.fromarray(RGB).save(tmp_path / f"x.{ending}")
    command = [sys.executable, "-c", DECODERS, tmp_path / f"x.{ending}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ("midfea.pictures.worker" in done.stdout) == isolated


def test_a_file_that_takes_too_long_costs_its_process_only(tmp_path, monkeypatch):
    Image.fromarray(RGB).save(tmp_path / "small.webp")
    noise = np.random.RandomState(0).randint(0, 256, (3000, 3000, 3)).astype(np.uint8)
    Image.fromarray(noise).save(tmp_path / "large.webp", quality=30, method=0)
    for _ in range(2):
        read_image(tmp_path / "small.webp")  # from now on a process is there, and has answered
        monkeypatch.setenv("MIDFEA_MAX_SECONDS", "0.001")
        start = time.monotonic()
        with pytest.raises(ImageError, match="took more than 0 s, and was ended"):
            read_image(tmp_path / "large.webp")
        assert time.monotonic() - start < 10
        monkeypatch.delenv("MIDFEA_MAX_SECONDS")
        assert read_image(tmp_path / "small.webp").shape == RGB.shape


def test_a_decoder_that_hangs_or_dies_is_replaced(tmp_path):
    Image.fromarray(RGB).save(tmp_path / "x.webp")
    content = (tmp_path / "x.webp").read_bytes()
    one = worker.Worker()
    os.kill(one._process.pid, signal.SIGSTOP)
    rescue = threading.Timer(20, one._process.kill)  # of this test
    rescue.start()
    with pytest.raises(ImageError, match="took more than 1 s, and was ended"):
        one.ask(content, {"what": "header"}, 1 - worker.START_SECONDS)
    assert rescue.is_alive()
    rescue.cancel()
    assert not one.alive
    other = worker.Worker()
    other._process.kill()
    with pytest.raises(ImageError, match="crashed"):
        other.ask(content, {"what": "header"}, 1)
    assert read_image(tmp_path / "x.webp").shape == RGB.shape


def tiff_of(side):
    """A TIFF file of zeros, four bytes each, made without its pixels in memory."""
    packer, data = zlib.compressobj(1), bytearray()
    for _ in range(side):
        data += packer.compress(bytes(4 * side))
    data += packer.flush()
    tags = {
        256: side,
        257: side,
        258: 32,
        259: 8,
        262: 1,
        273: 8,
        277: 1,
        278: side,
        279: len(data),
        339: 3,
    }
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    directory = struct.pack("<H", len(tags)) + entries + bytes(4)
    return struct.pack("<2sHI", b"II", 42, 8 + len(data)) + data + directory


def test_a_decoder_runs_no_code_of_the_folder(tmp_path, monkeypatch):
    """Somebody else's photos may lie beside somebody else's json.py."""
    (tmp_path / "json.py").write_text("raise SystemExit('code of the folder was run')")
    Image.fromarray(RGB).save(tmp_path / "x.webp")
    monkeypatch.chdir(tmp_path)
    code = "from midfea.pictures.reading import read_image; print(read_image('x.webp').shape)"
    result = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == str(RGB.shape)


def test_a_decoder_has_little_memory(tmp_path, monkeypatch):
    """The limit is the system's: what the decoder does not get, it cannot take."""
    (tmp_path / "usual.tif").write_bytes(tiff_of(1000))
    assert read_image(tmp_path / "usual.tif").shape == (1000, 1000)
    monkeypatch.setenv("MIDFEA_MAX_MEGAPIXELS", "1000")
    monkeypatch.setenv("MIDFEA_MAX_SECONDS", "60")  # no other limit shall end it
    (tmp_path / "x.tif").write_bytes(tiff_of(13000))  # 676 MB, and its pixels as much again
    start = time.monotonic()
    with pytest.raises(ImageError, match=r"x\.tif: not a readable image"):
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
