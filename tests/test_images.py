"""What users hand over as images: everything sensible works, the rest is refused clearly."""

import pickle

import numpy as np
import pytest
from PIL import Image

from midfea.pictures.images import Images, Pictures
from midfea.pictures.picture import Picture, make_picture, to_grey
from midfea.pictures.reading import ImageError, read_image
from midfea.pictures.resize import fit_within, resize, weights

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
    grey = Images([path]).picture(0, None, 1).grey
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


@pytest.mark.parametrize(
    ("dtype", "unit"), [(np.float32, 255), (np.float64, 1), (np.int64, 1), (np.uint16, 1 / 257)]
)
def test_transparency_of_other_numbers_is_laid_over_white_too(dtype, unit):
    opacity = np.random.RandomState(1).randint(0, 256, (20, 30, 1)).astype(np.uint8)
    opacity[0, 0], opacity[0, 1] = 0, 255
    pixels = np.concatenate([RGB, opacity], axis=2)
    grey = to_grey((pixels / unit).astype(dtype))
    np.testing.assert_allclose(grey * unit, to_grey(pixels), atol=1.01)


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
    assert fit_within(image, 15).dtype == np.float32
    constant = np.full((30, 30), 7, dtype=np.uint8)
    assert (resize(constant, (11, 17)) == 7).all()


SHAPES = [((20, 30), (10, 15)), ((30, 20), (64, 64)), ((61, 47), (20, 46)), ((300, 40), (100, 13))]


@pytest.mark.parametrize(("before", "after"), SHAPES)
def test_resize_is_its_weight_matrices(before, after):
    """And Pillow's area-weighted resizing of floats, which we do not depend on."""
    image = np.random.RandomState(0).randint(256, size=before).astype(np.uint8)
    rows, columns = (weights(b, a).toarray() for b, a in zip(before, after, strict=True))
    np.testing.assert_allclose(rows.sum(axis=1), 1)
    mine = resize(image, after)
    np.testing.assert_allclose(mine, rows @ image @ columns.T, atol=1e-4)
    theirs = Image.fromarray(image.astype(np.float32)).resize(after[::-1], Image.Resampling.BILINEAR)
    np.testing.assert_allclose(mine, np.asarray(theirs), atol=1e-3)


def test_large_images_are_resized_in_parts():
    image = np.random.RandomState(0).randint(256, size=(1700, 1300)).astype(np.uint8)
    rows, columns = weights(1700, 150), weights(1300, 115)
    np.testing.assert_allclose(resize(image, (150, 115)), rows @ image @ columns.T, atol=1e-4)


def test_rounded_resizing_of_format_1_is_pillows():
    image = np.random.RandomState(0).randint(256, size=(90, 200)).astype(np.uint8)
    theirs = Image.fromarray(image).resize((150, 68), Image.Resampling.BILINEAR)
    np.testing.assert_array_equal(resize(image, (68, 150), rounded=True), np.asarray(theirs))


def test_dark_photographs_keep_their_grey_values():
    dark = np.random.RandomState(0).randint(4, size=(100, 100)).astype(np.uint8)
    assert len(np.unique(resize(dark, (50, 50)))) > 20
    assert len(np.unique(resize(dark, (50, 50), rounded=True))) <= 4


def test_pictures_keep_their_colours_through_pickling_and_joblib():
    picture = make_picture(RGB, 15)
    assert [plane.shape for plane in picture.colours] == [(10, 15)] * 2
    again = pickle.loads(pickle.dumps(picture))
    np.testing.assert_array_equal(again.colours[0], picture.colours[0])
    assert again.digest() == picture.digest() != make_picture(to_grey(RGB), 15).digest()
    np.testing.assert_array_equal(np.asarray(picture), picture.grey)
    assert make_picture(RGB, None).within(15).digest() == picture.digest()


def test_each_file_is_decoded_once_while_memory_lasts(tmp_path):
    for i in range(3):
        Image.fromarray(RGB).save(tmp_path / f"{i}.png")
    files = Images([tmp_path / f"{i}.png" for i in range(3)])
    kept, not_kept = Pictures(files, 20), Pictures(files, 20, max_kept_bytes=0)
    assert kept[1] is kept[1]
    assert not_kept[1] is not not_kept[1]


def test_arrays_of_file_names_are_lists_of_them(tmp_path):
    paths = [tmp_path / f"{i}.png" for i in range(3)]
    for path in paths:
        Image.fromarray(RGB).save(path)
    names = [str(path) for path in paths]
    text = np.dtypes.StringDType()
    for given in (names, np.array(names), np.array(names, dtype=text), np.array(paths), tuple(paths)):
        images = Images(given)
        assert [images.name(i) for i in range(len(images))] == names
        assert images.picture(1, None, 1).shape == RGB.shape[:2]


def test_too_small_images_are_named_with_their_own_size():
    with pytest.raises(ImageError, match=r"image 0 has 1500x10 pixels, 150x1 as the model sees it"):
        Images([np.zeros((1500, 10))]).picture(0, 150, 7)
    assert isinstance(Images([Picture(to_grey(RGB))]).picture(0, None, 7), Picture)


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
        ([[[1, 2], [3]]], "image 0 is not an array: its rows differ"),
        (np.array(None), "not a stack"),
        (np.array("photo.jpg"), "one file name, 'photo.jpg': put file names into a list"),
        (np.array([["a.jpg"], ["b.jpg"]]), r"names in shape \(2, 1\): put file names into a list"),
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
        Images([np.zeros((20, 20)), image]).picture(1, None, 1)


def test_damaged_files(tmp_path):
    good = tmp_path / "good.jpg"
    Image.fromarray(RGB).save(good)
    cut = tmp_path / "cut.jpg"
    cut.write_bytes(good.read_bytes()[:300])
    text = tmp_path / "text.jpg"
    text.write_text("this is no image")
    for path in (cut, text):
        with pytest.raises(ImageError, match=f"{path.name}: not a readable image"):
            Images([path]).picture(0, None, 1)
