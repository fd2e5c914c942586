"""The loaders of published sets: small made trees, what is said of damaged ones, and the real counts."""

import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import gaussian_filter

from midfea import datasets
from midfea.datasets import DatasetError
from midfea.datasets.fgnet import MOUTH, OUTSIDE, PLACES, PUPILS
from midfea.datasets.official import AR_VIEWS, CALTECH101_COUNTS

LOADERS = {
    "ar": datasets.load_ar,
    "yale_b": datasets.load_yale_b,
    "fgnet": datasets.load_fgnet,
    "caltech101": datasets.load_caltech101,
    "caltech256": datasets.load_caltech256,
}


def draw(path, shape=(20, 16), value=90, colour=False):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.full((*shape, 3) if colour else shape, value, dtype=np.uint8)
    Image.fromarray(pixels).save(path)


def average_face(eyes=100.0):
    """68 points in x and y: a ring for the face, pupils and mouth in the proportions of `PLACES`."""
    mouth = np.arange(68)[MOUTH]
    ring = np.setdiff1d(np.arange(68), [*PUPILS, *mouth])
    face = np.empty((68, 2))
    for points, width, height, low in (
        (ring, 1.3, 1.2, 0.6),
        (mouth, 0.3, 0.15, (PLACES[2] - PLACES[0]).imag / (PLACES[1] - PLACES[0]).real),
    ):
        angles = 2 * np.pi * np.arange(len(points)) / len(points)
        face[points] = np.column_stack([width * np.cos(angles), low + height * np.sin(angles)])
    face[PUPILS, :] = [(-0.5, 0), (0.5, 0)]
    return face * eyes


def turned(points, degrees, scale, shift):
    angle = np.deg2rad(degrees)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return scale * points @ turn.T + shift


def draw_face(root, name, points, shape=(420, 400)):
    """A dark photo with a bright blob on each pupil, and its points file."""
    photo = np.zeros(shape, dtype=np.float64)
    for x, y in points[PUPILS, :]:
        photo[round(y), round(x)] = 1
    photo = gaussian_filter(photo, 6)
    pixels = np.rint(20 + 200 * photo / photo.max()).astype(np.uint8)
    for folder in ("images", "points"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(root / "images" / f"{name}.JPG", quality=95)
    lines = "\n".join(f"{x} {y}" for x, y in points)
    text = f"version: 1\nn_points: 68\n{{\n{lines}\n}}\n"
    (root / "points" / f"{name.lower()}.pts").write_text(text)


def bright_spots(image, landmarks):
    """The brightest place within 6 pixels of each pupil's landmark, to a fraction of a pixel."""
    rows, columns = np.indices(image.shape)
    spots = []
    for x, y in landmarks[PUPILS, :]:
        weight = np.where(np.hypot(columns - x, rows - y) < 6, image.astype(float) - 20, 0).clip(0)
        spots.append((np.average(columns, weights=weight), np.average(rows, weights=weight)))
    return np.array(spots)


def make_ar(root):
    for name in ("M-001-01", "M-001-14", "M-002-20", "W-050-07"):
        draw(root / f"{name}.png")
    draw(root / "M-001-08.png")  # sun glasses
    (root / "._M-001-02.png").write_text("left by a Mac")


def make_yale_b(root):
    for name in ("yaleB01", "yaleB39"):
        draw(root / name / f"{name}_P00A+000E+00.pgm", (192, 168))
        draw(root / name / f"{name}_P00A-110E+65.pgm", (192, 168))
        draw(root / name / f"{name}_P00_Ambient.pgm", (480, 640))
    draw(root / "yaleB01" / "yaleB01_P00A+050E-40.pgm")
    spoilt = root / "yaleB01" / "yaleB01_P00A+050E-40.pgm"
    spoilt.rename(spoilt.with_name(spoilt.name + ".bad"))
    (root / "yaleB01" / "yaleB01_P00.info").write_text("light")


def make_fgnet(root):
    face = average_face()
    draw_face(root, "001A02", turned(face, 0, 1.0, (200, 150)))
    draw_face(root, "001A43a", turned(face, 20, 0.9, (210, 140)))
    draw_face(root, "082A10", turned(face, -15, 1.1, (190, 160)))


def make_caltech101(root):
    draw(root / "accordion" / "image_0001.jpg", (300, 200), colour=True)
    draw(root / "accordion" / "image_0002.jpg", (100, 120))
    draw(root / "yin_yang" / "image_0060.jpg")
    draw(root / "BACKGROUND_Google" / "image_0001.jpg")
    (root / "BACKGROUND_Google" / "tmp").write_text("left over")


def make_caltech256(root):
    draw(root / "001.ak47" / "001_0001.jpg", (300, 200), colour=True)
    draw(root / "001.ak47" / "001_0003.jpg")
    draw(root / "198.spider" / "198_0001.jpg")
    (root / "198.spider" / "RENAME2").write_text("mv")
    draw(root / "056.dog" / "056_0001.jpg")
    draw(root / "056.dog" / "greg" / "vision309" / "056_0002.jpg")
    draw(root / "greg" / "001_0001.jpg")
    draw(root / "257.clutter" / "257_0001.jpg")


MAKERS = {
    "ar": (make_ar, "ar"),
    "yale_b": (make_yale_b, "extended_yale_b/CroppedYale"),
    "fgnet": (make_fgnet, "fgnet"),
    "caltech101": (make_caltech101, "caltech101/101_ObjectCategories"),
    "caltech256": (make_caltech256, "256_ObjectCategories"),
}


@pytest.fixture
def made(tmp_path):
    """A folder with a small tree of each set."""
    for make, place in MAKERS.values():
        make(tmp_path / place)
    return tmp_path


@pytest.mark.parametrize("name", LOADERS)
def test_the_set_is_found_from_its_own_folder_and_from_those_above(made, name):
    own = made / MAKERS[name][1]
    first = LOADERS[name](own, complete=False)
    for folder in [parent for parent in own.parents if parent.is_relative_to(made)]:
        assert LOADERS[name](str(folder), complete=False).paths == first.paths
    assert len(first.images) == len(first.target) == len(first.paths)
    kinds = (np.uint8, np.float32)  # floats where the loader reduces
    assert all(image.ndim == 2 and image.dtype in kinds for image in first.images)
    assert all(path.is_file() for path in first.paths)
    if name != "fgnet":
        assert first.target_names == sorted(set(first.target))


def test_ar(made):
    data = datasets.load_ar(made, complete=False)
    assert data.target.tolist() == ["M-001", "M-001", "M-002", "W-050"]
    assert data.groups.tolist() == data.person.tolist() == data.target.tolist()
    assert data.sex.tolist() == ["man", "man", "man", "woman"]
    assert data.view.tolist() == [1, 14, 20, 7]
    assert data.session.tolist() == [1, 2, 2, 1]
    assert len(data.missing) == 1396
    assert data.missing[0] == "M-001-02"


def test_yale_b(made):
    data = datasets.load_yale_b(made, complete=False)
    assert data.target.tolist() == data.groups.tolist() == ["yaleB01"] * 2 + ["yaleB39"] * 2
    assert {image.shape for image in data.images} == {(96, 84)}
    assert data.images[0].min() == data.images[0].max() == 90
    assert data.missing[0] == "yaleB01 (2 images, expected 59 to 64)"
    assert data.missing[-2:] == ["in all 2,410 of 2,414 images", "yaleB01/yaleB01_P00A+050E-40.pgm.bad"]
    assert datasets.load_yale_b(made, (48, 42), complete=False).images[0].shape == (48, 42)


def test_yale_b_is_not_rounded(tmp_path):
    """A face in shades of black: means of pixels are not whole numbers."""
    black = (np.indices((192, 168)).sum(axis=0) % 2).astype(np.uint8)
    folder = tmp_path / "yaleB01"
    folder.mkdir()
    Image.fromarray(black).save(folder / "yaleB01_P00A+095E+00.pgm")
    image = datasets.load_yale_b(tmp_path, complete=False).images[0]
    np.testing.assert_allclose(image[5:-5, 5:-5], 0.5, atol=0.1)


def test_caltech101(made):
    data = datasets.load_caltech101(made, complete=False)
    assert data.target.tolist() == ["BACKGROUND_Google", "accordion", "accordion", "yin_yang"]
    assert [image.shape for image in data.images] == [(20, 16), (150, 100), (100, 120), (20, 16)]
    assert data.groups is None
    assert len(data.missing) == 9140
    assert "accordion/image_0003.jpg" in data.missing
    whole = datasets.load_caltech101(made, complete=False, background=False, max_side=None)
    assert "BACKGROUND_Google" not in whole.target_names
    assert whole.images[0].shape == (300, 200)
    assert len(whole.missing) == 8677 - 3


def test_caltech256(made):
    data = datasets.load_caltech256(made, complete=False)
    assert data.target.tolist() == ["001.ak47", "001.ak47", "056.dog", "198.spider"]
    assert data.images[0].shape == (150, 100)
    assert "001.ak47/001_0002.jpg" in data.missing  # 1 and 3 are there
    assert "class 002" in data.missing
    assert data.missing[-1] == "in all 29,776 of 29,780 images"
    clutter = datasets.load_caltech256(made, complete=False, clutter=True)
    assert clutter.target_names[-1] == "257.clutter"
    assert clutter.missing[-1] == "in all 30,602 of 30,607 images"


def test_fgnet_names_hold_person_and_age(made):
    (made / "fgnet" / "points" / "003a11.pts").write_text("{ }")
    draw(made / "fgnet" / "images" / "004A12.JPG")
    data = datasets.load_fgnet(made, complete=False)
    assert data.names == ["001A02", "001A43a", "082A10"]
    assert data.target.tolist() == [2.0, 43.0, 10.0]
    assert data.groups.tolist() == [1, 1, 82]
    assert data.landmarks.shape == (3, 68, 2)
    assert data.missing[:3] == ["points/004a12.pts", "images/003A11.JPG", "person 002"]
    assert data.missing[-1] == "in all 999 of 1,002 images"


@pytest.mark.parametrize("size", [60, 97])
def test_aligned_faces_have_pupils_and_mouth_on_their_places(made, size):
    data = datasets.load_fgnet(made, faces="aligned", size=size, complete=False)
    places = np.column_stack([PLACES.real, PLACES.imag]) * (size - 1)
    for image, landmarks in zip(data.images, data.landmarks, strict=True):
        assert image.shape == (size, size)
        np.testing.assert_allclose(landmarks[PUPILS, :], places[:2], atol=0.01)
        np.testing.assert_allclose(landmarks[MOUTH].mean(axis=0), places[2], atol=0.01)
        # not only the numbers: the photo's own pupils are there
        np.testing.assert_allclose(bright_spots(image, landmarks), places[:2], atol=1)


def test_aligned_faces_of_other_proportions_are_fitted_by_least_squares(tmp_path):
    face = average_face()
    face[MOUTH, 1] += 30  # a longer face: what is too much is shared between eyes and mouth
    draw_face(tmp_path, "001A02", turned(face, 10, 1, (200, 150)))
    landmarks = datasets.load_fgnet(tmp_path, complete=False).landmarks[0]
    places = np.column_stack([PLACES.real, PLACES.imag]) * 59
    found = np.vstack([landmarks[PUPILS, :], landmarks[MOUTH].mean(axis=0)])
    error = found - places
    np.testing.assert_allclose(error.mean(axis=0), 0, atol=1e-9)  # the best shift
    assert abs(np.sum(error * found)) < 1e-9  # the best scale: the error is at a right angle to it
    assert 0.5 < np.abs(error).max() < 5


def test_warped_faces_have_all_landmarks_on_the_mean_shape(made):
    # one face differs in shape, so that the warp is more than a turn
    odd = average_face()
    odd[:31] *= 1.1
    draw_face(made / "fgnet", "005A30", turned(odd, 5, 1.0, (200, 150)))
    data = datasets.load_fgnet(made, faces="warped", complete=False)
    mean = data.landmarks[0]
    assert (data.landmarks == mean).all()
    assert mean[31, 1] == pytest.approx(mean[36, 1])  # eyes level
    assert mean.min() == pytest.approx(1) and mean.max() == pytest.approx(58)
    for image in data.images:
        np.testing.assert_allclose(bright_spots(image, mean), mean[PUPILS, :], atol=1)
        assert image[0, 0] == image[-1, -1] == OUTSIDE
        assert image[30, 30] < 60  # within the face


def test_the_mean_shape_of_equal_faces_is_that_face(made):
    mean = datasets.load_fgnet(made, faces="warped", complete=False).landmarks[0]
    face = average_face()
    face = (face - face.mean(axis=0)) / np.ptp(face[:, 0])
    np.testing.assert_allclose((mean - mean.mean(axis=0)) / np.ptp(mean[:, 0]), face, atol=1e-9)


@pytest.mark.parametrize("bad", [{"faces": "cropped"}, {"size": 4}, {"size": 60.0}])
def test_fgnet_refuses_bad_arguments(made, bad):
    with pytest.raises(ValueError, match=f"{next(iter(bad))} must be"):
        datasets.load_fgnet(made, complete=False, **bad)


@pytest.mark.parametrize("name", LOADERS)
def test_wrong_folder(tmp_path, name):
    (tmp_path / "holiday").mkdir()
    draw(tmp_path / "holiday" / "beach.jpg")
    example = {"ar": "M-001-01.png", "yale_b": "yaleB01_P00A", "fgnet": "001A02.JPG"}
    with pytest.raises(DatasetError, match="not found, neither there nor in") as error:
        LOADERS[name](tmp_path / "holiday")
    assert str(error.value).startswith(str(tmp_path / "holiday"))
    assert example.get(name, "_0001.jpg") in str(error.value)
    assert "\n" not in str(error.value)
    with pytest.raises(DatasetError, match="nowhere: no such folder; give the folder"):
        LOADERS[name](tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ar", r"1,396 of 1,400 files are absent \(M-001-02, M-001-03, M-001-04, ...\)"),
        ("yale_b", r"2,410 of 2,414 files are absent \(yaleB01 \(2 images, expected 59 to 64\)"),
        ("fgnet", r"999 of 1,002 files are absent \(person 002, person 003"),
        ("caltech101", r"9,140 of 9,144 files are absent \(BACKGROUND_Google/image_0002.jpg"),
        ("caltech256", r"29,776 of 29,780 files are absent \(class 002"),
    ],
)
def test_half_copied_set(made, name, message):
    with pytest.raises(DatasetError, match=f"half-copied, {message}.*copy the set again") as error:
        LOADERS[name](made)
    assert "\n" not in str(error.value)


def test_a_set_that_lacks_a_few_files_is_read(tmp_path):
    names = [f"{s}-{n:03d}-{view:02d}" for s in "MW" for n in range(1, 51) for view in AR_VIEWS]
    for name in names[:-14]:
        draw(tmp_path / f"{name}.png", (4, 3))
    data = datasets.load_ar(tmp_path)
    assert len(data.images) == 1386
    assert data.missing == names[-14:]
    (tmp_path / f"{names[0]}.png").unlink()
    with pytest.raises(DatasetError, match="half-copied, 15 of 1,400"):
        datasets.load_ar(tmp_path)


def test_nothing_of_the_set_left(made):
    for path in (made / "ar").glob("[MW]*"):
        if path.name != "M-001-08.png":
            path.unlink()
    with pytest.raises(DatasetError, match="none of the set's 1,400 images is there"):
        datasets.load_ar(made, complete=False)


@pytest.mark.parametrize("name", LOADERS)
def test_unreadable_image(made, name):
    path = LOADERS[name](made, complete=False).paths[-1]
    path.write_bytes(path.read_bytes()[:30])
    with pytest.raises(DatasetError, match=r"not a readable image .*; copy it again") as error:
        LOADERS[name](made, complete=False)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["", "{ 1 2 3 }", "{ one two }"])
def test_unreadable_points(made, text):
    path = made / "fgnet" / "points" / "001a02.pts"
    path.write_text(text)
    with pytest.raises(DatasetError, match=r"001a02.pts: not 68 points between braces; copy it again"):
        datasets.load_fgnet(made, complete=False)


def test_caltech101_counts():
    assert len(CALTECH101_COUNTS) == 102
    assert sum(CALTECH101_COUNTS.values()) == 9144


@pytest.mark.data
def test_real_ar(data_dir):
    data = datasets.load_ar(data_dir)
    assert data.missing == ["W-027-14"]
    assert len(data.images) == 1399 and len(data.target_names) == 100
    assert (data.sex == "man").sum() == 700
    assert (data.session == 1).sum() == 700


@pytest.mark.data
def test_real_yale_b(data_dir):
    data = datasets.load_yale_b(data_dir)
    assert data.missing == []
    assert len(data.images) == 2414 and len(data.target_names) == 38
    assert {image.shape for image in data.images} == {(96, 84)}


@pytest.mark.data
@pytest.mark.parametrize("faces", ["aligned", "warped"])
def test_real_fgnet(data_dir, faces):
    data = datasets.load_fgnet(data_dir, faces=faces)
    assert data.missing == []
    assert len(data.images) == 1002 and len(set(data.groups)) == 82
    assert (data.target.min(), data.target.max()) == (0, 69)
    brows_to_chin = data.landmarks[..., 1]
    assert np.mean((brows_to_chin.min(axis=1) >= 0) & (brows_to_chin.max(axis=1) <= 59)) > 0.98
    # pupils are darker than the faces around them
    x, y = np.rint(data.landmarks[:, PUPILS, :]).astype(int).transpose(2, 1, 0)
    images = np.array(data.images)
    pupils = images[np.arange(len(images)), y, x].mean(axis=0)
    assert np.mean(pupils < np.median(images[:, 15:45, 15:45], axis=(1, 2))) > 0.95


@pytest.mark.data
def test_real_caltech101(data_dir):
    data = datasets.load_caltech101(data_dir)
    assert data.missing == []
    assert len(data.images) == 9144 and len(data.target_names) == 102
    assert max(max(image.shape) for image in data.images) == 150
