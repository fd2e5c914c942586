"""What users hand over as images: everything sensible works, the rest is refused clearly."""

import numpy as np
import pytest
from PIL import Image

from midfea.pictures.images import ImageError, Images, fit_within, read_image, rescale, to_grey

RGB = np.random.RandomState(0).randint(0, 256, (20, 30, 3)).astype(np.uint8)


def test_grey_of_colour_is_pillows():
    np.testing.assert_array_equal(to_grey(RGB), np.asarray(Image.fromarray(RGB).convert("L")))
    np.testing.assert_allclose(to_grey(RGB / 255.0) * 255, to_grey(RGB), atol=0.51)


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P", "1", "LA", "CMYK", "I;16"])
def test_kinds_of_png(tmp_path, mode):
    image = Image.fromarray(RGB)
    if mode == "I;16":
        image = Image.fromarray(to_grey(RGB).astype(np.uint16) * 257)
    elif mode != "CMYK":
        image = image.convert(mode)
    path = tmp_path / ("x.tiff" if mode == "CMYK" else "x.png")
    (image.convert("CMYK") if mode == "CMYK" else image).save(path)
    grey = Images([path]).grey(0)
    assert grey.shape == (20, 30)
    expected = to_grey(RGB).astype(float)
    grey = grey / 257 if mode == "I;16" else grey.astype(float)
    if mode not in ("P", "1"):  # those lose colours themselves
        assert np.abs(grey - expected).max() <= 2
    else:
        assert np.corrcoef(grey.ravel(), expected.ravel())[0, 1] > 0.4


def test_transparency_is_laid_over_white(tmp_path):
    pixels = np.zeros((4, 4, 4), dtype=np.uint8)
    pixels[:2, :, 3] = 255
    Image.fromarray(pixels).save(tmp_path / "x.png")
    grey = to_grey(read_image(tmp_path / "x.png"))
    assert (grey[:2] == 0).all()
    assert (grey[2:] == 255).all()
    np.testing.assert_array_equal(to_grey(pixels), grey)


def test_camera_orientation_is_applied(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    Image.fromarray(RGB).save(tmp_path / "x.jpg", exif=exif)
    assert read_image(tmp_path / "x.jpg").shape == (30, 20, 3)


def test_resizing():
    image = to_grey(RGB)
    assert fit_within(image, 30) is image
    assert fit_within(image, None) is image
    assert fit_within(image, 15).shape == (10, 15)
    assert fit_within(image, 15).dtype == np.uint8
    assert rescale(image.astype(np.float32), 0.5).dtype == np.float32
    constant = np.full((30, 30), 7, dtype=np.uint8)
    assert (rescale(constant, 0.37) == 7).all()


@pytest.mark.parametrize(
    "images, message",
    [
        (np.zeros((20, 30)), "not a stack"),
        (np.zeros((20, 30, 3)), "single image write"),
        (np.zeros((2, 3, 4, 5, 6)), "5 dimensions"),
        ([], "no images"),
        (np.zeros((0, 20, 20)), "no images"),
        ("photo.jpg", "put it into a list"),
        (["missing.jpg"], "missing.jpg: no such file"),
        ([np.zeros((20, 30, 7))], "image 0 has shape"),
        ([np.zeros((20, 30)), np.zeros(5)], "image 1 has shape"),
        ([np.array([["a", "b"]])], "not numbers"),
        ([np.zeros((0, 30))], "empty"),
        (5, "got int"),
    ],
)
def test_wrong_input_says_what_and_how(images, message):
    with pytest.raises(ImageError, match=message):
        Images(images)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_missing_pixels(bad):
    image = np.zeros((20, 20))
    image[3, 3] = bad
    with pytest.raises(ImageError, match="image 1 contains NaN or infinity"):
        Images([np.zeros((20, 20)), image]).grey(1)


def test_damaged_files(tmp_path):
    good = tmp_path / "good.jpg"
    Image.fromarray(RGB).save(good)
    cut = tmp_path / "cut.jpg"
    cut.write_bytes(good.read_bytes()[:300])
    text = tmp_path / "text.jpg"
    text.write_text("this is no image")
    for path in (cut, text):
        with pytest.raises(ImageError, match=f"{path.name}: not a readable image"):
            Images([path]).grey(0)
