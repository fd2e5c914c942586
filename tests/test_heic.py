"""HEIC, the format of phones: read where pillow-heif is installed, else named with the line to type."""

import io
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from command import midfea
from midfea.datasets import load_folder, load_surfaces
from midfea.extras import install_line
from midfea.pictures.formats import HEIC_START, has_image_ending, media_type
from midfea.pictures.reading import ImageError, read_header, read_image
from serving import Server

heif = pytest.importorskip("pillow_heif")
RNG = np.random.RandomState(0)


def heic(pixels, **options):
    """A HEIC file of an image."""
    file = io.BytesIO()
    heif.from_pillow(Image.fromarray(pixels)).save(file, quality=90, **options)
    return file.getvalue()


def with_size(content, width, height):
    """The file, saying that its pixels are so many."""
    place = content.index(b"ispe") + 8
    return content[:place] + width.to_bytes(4, "big") + height.to_bytes(4, "big") + content[place + 8 :]


@pytest.fixture(scope="module")
def photo():
    """A drawn image, grey, 150 pixels wide and 100 high."""
    return np.asarray(load_surfaces(n_per_class=1, size=150, random_state=0).images[0])[:100]


@pytest.fixture(scope="module")
def colours(photo):
    return np.stack([photo, photo[::-1], photo[:, ::-1]], axis=2)


@pytest.fixture(scope="module")
def content(colours):
    return heic(colours)


def test_pixels_are_those_of_the_image(tmp_path, colours, content):
    (tmp_path / "a.HEIC").write_bytes(content)
    assert read_header(tmp_path / "a.HEIC") == ("HEIF", 150, 100)
    pixels = read_image(tmp_path / "a.HEIC")
    assert pixels.shape == (100, 150, 3) and pixels.dtype == np.uint8
    assert np.abs(pixels.astype(int) - colours).mean() < 6
    assert np.abs(pixels.astype(int) - colours[..., ::-1]).mean() > 12


def test_a_turned_camera_and_transparency(tmp_path, colours):
    exif = Image.Exif()
    exif[0x0112] = 6
    (tmp_path / "a.heic").write_bytes(heic(colours, exif=exif.tobytes()))
    assert read_header(tmp_path / "a.heic") == ("HEIF", 100, 150)
    assert np.abs(read_image(tmp_path / "a.heic").astype(int) - np.rot90(colours, -1)).mean() < 6
    clear = np.zeros((40, 60, 4), np.uint8)  # black, and not to be seen
    (tmp_path / "b.heic").write_bytes(heic(clear))
    assert (read_image(tmp_path / "b.heic") > 250).all()


def test_the_decoder_is_not_loaded_into_this_process(tmp_path, content):
    (tmp_path / "a.heic").write_bytes(content)
    code = (
        "import sys; from midfea.pictures.reading import read_image; read_image(sys.argv[1]); "
        "print('pillow_heif' in sys.modules)"
    )
    command = [sys.executable, "-c", code, tmp_path / "a.heic"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"


def test_damaged_files_are_refused_in_one_line(tmp_path, content):
    (tmp_path / "a.heic").write_bytes(content[: len(content) // 2])
    with pytest.raises(ImageError, match=r"a\.heic: not a readable image \("):
        read_image(tmp_path / "a.heic")
    for _ in range(20):
        damaged = bytearray(content)
        for place in RNG.randint(12, len(content), 30):
            damaged[place] = RNG.randint(256)
        (tmp_path / "a.heic").write_bytes(damaged)
        try:
            pixels = read_image(tmp_path / "a.heic")
        except ImageError as error:
            assert str(error).startswith(f"{tmp_path / 'a.heic'}: ") and "\n" not in str(error)
        else:
            assert pixels.size


def test_limits_hold_before_and_after_decoding(tmp_path, content, monkeypatch):
    path = tmp_path / "a.heic"
    path.write_bytes(with_size(content, 9000, 9000))
    with pytest.raises(ImageError, match="has 9000x9000 pixels, at most 60 megapixels"):
        read_header(path)
    path.write_bytes(with_size(content, 16, 16))  # hides that there are more
    try:
        pixels = read_image(path)
    except ImageError as error:
        assert "not a readable image" in str(error)
    else:  # pillow-heif 1.0 does not mind, and gives what the file holds
        assert pixels.shape[:2] in ((16, 16), (100, 150))
    path.write_bytes(content)
    monkeypatch.setenv("MIDFEA_MAX_MEGAPIXELS", "0.01")
    with pytest.raises(ImageError, match="has 150x100 pixels"):
        read_image(path)


def test_formats_by_content_and_name():
    assert all(has_image_ending(f"IMG_1{ending}") for ending in (".heic", ".HEIC", ".heif", ".hif"))
    assert media_type("IMG_1.HEIC") == "image/heic"
    for start in (b"heic\0\0\0\0mif1", b"mif1\0\0\0\0heic", b"mif1\0\0\0\0mif1miafheic"):
        assert HEIC_START.match(b"\0\0\0\x20ftyp" + start)
    for start in (b"avif\0\0\0\0mif1miaf", b"mif1\0\0\0\0mif1avif", b"isom\0\0\0\0heic"):
        assert not HEIC_START.match(b"\0\0\0\x20ftyp" + start)


def test_a_folder_of_heic_files(tmp_path, content):
    (tmp_path / "cats").mkdir()
    (tmp_path / "cats" / "1.heic").write_bytes(content)
    data = load_folder(tmp_path, thumbnails=True)
    assert [path.name for path in data.paths] == ["1.heic"] and not data.skipped
    assert data.thumbnails[0][8:12] == b"WEBP"


def test_without_pillow_heif_the_reason_is_in_the_list_of_skipped_files(tmp_path, content, without):
    without("pillow_heif")
    for name in ("cats/1.heic", "cats/2.jpg", "dogs/1.heif"):  # the second one was renamed
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    listed = tmp_path / "skipped.csv"
    result = midfea("train", tmp_path, "-o", tmp_path / "m.midfea", "--skipped", listed)
    reason = f"HEIC: pillow-heif is not installed: {install_line('heic')}"
    for name in ("1.heic", "2.jpg", "1.heif"):
        assert f"{name}: {reason}" in result.stderr
    assert listed.read_text().count("pillow-heif is not installed") == 3
    assert result.returncode == 1


def test_the_page_takes_heic_files(tmp_path, content):
    pytest.importorskip("fastapi")
    with Server(tmp_path / "workspace") as server:
        assert {".heic", ".heif"} <= set(server.state()["image_endings"])
        answer = server.upload("cats", ("IMG_1.HEIC", content), ("cut.heic", content[:500]))
        assert [refused["name"] for refused in answer["refused"]] == ["cut.heic"]
        (image,) = answer["accepted"]
        assert (image["name"], image["width"], image["height"]) == ("IMG_1.HEIC", 150, 100)
        id = image["id"]
        small = server.client.get(f"/api/images/{id}/thumbnail")
        assert small.content[8:12] == b"WEBP"
        assert server.client.get(f"/api/images/{id}/file").headers["content-type"] == "image/heic"
