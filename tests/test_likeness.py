"""Near-duplicates and series: what is kept together, and what is not."""

import numpy as np
import pytest
from PIL import Image

from drawn import N_FRAMES, drives, names_of_drives, photo, saved
from midfea.datasets import suggest_groups
from midfea.learning.folds import join_duplicates
from midfea.pictures.likeness import EDGES, MAX_COPIES, MIN_LIKENESS, fingerprints, near_duplicates
from midfea.pictures.picture import Picture, make_picture


def enlarged(image, factor):
    return image.resize((round(image.width * factor), round(image.height * factor)))


def groups_of(images):
    return near_duplicates(fingerprints([make_picture(np.asarray(image), 150) for image in images]))


COPIES = {
    "jpeg": lambda image: saved(image, "JPEG", quality=60),
    "webp": lambda image: saved(image, "WEBP", quality=80),
    "half": lambda image: enlarged(image, 0.5),
    "double": lambda image: enlarged(image, 2),
    "brighter": lambda image: image.point(lambda value: min(255, round(1.05 * value))),
    "darker": lambda image: saved(image.point(lambda value: round(0.95 * value)), "JPEG", quality=75),
}


@pytest.mark.parametrize("kind", COPIES)
def test_a_copy_in_another_encoding_size_or_light_is_found(kind):
    originals = [photo(seed) for seed in range(8)]
    groups = groups_of(originals + [COPIES[kind](image) for image in originals])
    assert (groups[:8] == groups[8:]).all()
    assert len(set(groups)) == 8  # and nothing else is joined


def test_other_pictures_are_not_joined():
    image = np.asarray(photo(0))
    others = [image, image[:, ::-1], image[:, :, ::-1], image // 2, image[:, :100]]
    assert len(set(groups_of(others))) == len(others)


def test_a_small_thing_before_the_same_camera_is_not_a_copy():
    for seed in (0, 3):
        empty = np.asarray(photo(seed))
        image = empty.copy()
        image[40:44, 60:64] = 255 - image[40:44, 60:64]
        one, two = fingerprints([make_picture(pixels, 150) for pixels in (empty, image)])
        assert one[EDGES] @ two[EDGES] > MIN_LIKENESS  # alike as a whole
        assert len(set(groups_of([empty, image]))) == 2


def test_flat_pictures_are_not_joined():
    lens = np.linspace(0, 2, 60)  # darker on one side, by two grey levels
    flat = [np.tile(128 + number + lens, (60, 1)).astype(np.uint8) for number in range(6)]
    assert len(set(groups_of(flat))) == 6


def test_many_pictures_of_a_camera_that_stands_still_are_no_copies():
    scene, rng = np.asarray(photo(1)), np.random.RandomState(0)
    frames = [
        (scene + rng.randint(3, size=scene.shape)).clip(0, 255).astype(np.uint8)
        for _ in range(MAX_COPIES + 1)
    ]
    assert len(set(groups_of(frames[:5]))) == 1
    assert len(set(groups_of(frames))) == len(frames)


def test_near_duplicates_join_the_groups_they_lie_in():
    images = [photo(seed) for seed in range(4)] + [saved(photo(0), "WEBP", quality=80)]
    pictures = [make_picture(np.asarray(image), 150) for image in images]
    joined = join_duplicates(pictures, np.array([0, 1, 1, 2, 2]))
    assert joined[0] == joined[3] == joined[4] != joined[1] == joined[2]


@pytest.fixture(scope="module")
def prints():
    """Of two classes with six drives of five frames each."""
    return fingerprints([Picture(frame) for frame in drives()])


def series_of(groups):
    return [groups[i : i + N_FRAMES].tolist() for i in range(0, len(groups), N_FRAMES)]


def is_one_group_each(series):
    return all(len(set(each)) == 1 for each in series) and len({each[0] for each in series}) == len(
        series
    )


def test_series_are_found_by_a_number_at_the_end_of_names_of_drives(tmp_path, prints):
    paths = names_of_drives(tmp_path, lambda label, number, frame: f"{number:05}-{frame:05}.jpg")
    found = suggest_groups(paths, prints)
    assert is_one_group_each(series_of(found.groups))
    assert str(found) == (
        "60 images look like series of photos, by names and likeness (such as class0/00000-00000.jpg to "
        "00000-00004.jpg): 12 series of about 5 images"
    )


def test_series_are_found_by_times_in_names(tmp_path, prints):
    paths = names_of_drives(
        tmp_path, lambda label, number, frame: f"photo-2026-05-17T10-{number:02}-{frame:02}-123Z.jpg"
    )
    found = suggest_groups(paths, prints)
    assert found.clue == "times" and is_one_group_each(series_of(found.groups))


def test_series_are_found_by_the_camera_clock(tmp_path, prints):
    paths = names_of_drives(
        tmp_path, lambda label, number, frame: f"IMG_{100 * label + 10 * number + frame:04}.jpg"
    )
    for i, path in enumerate(paths):
        path.parent.mkdir(exist_ok=True)
        exif = Image.Exif()
        minute, second = divmod(i, N_FRAMES)
        exif.get_ifd(0x8769)[0x9003] = f"2026:05:17 10:{minute:02}:{second:02}"
        Image.new("L", (8, 8)).save(path, exif=exif)
    found = suggest_groups(paths, prints)
    assert found.clue == "times" and is_one_group_each(series_of(found.groups))


def test_numbered_photos_that_do_not_look_alike_are_no_series(tmp_path):
    prints = fingerprints([Picture(np.asarray(photo(seed).convert("L"))) for seed in range(60)])
    paths = names_of_drives(tmp_path, lambda label, number, frame: f"{number:05}-{frame:05}.jpg")
    assert suggest_groups(paths, prints) is None


def test_a_class_that_is_one_long_series_of_numbers_is_no_evidence(tmp_path, prints):
    paths = names_of_drives(tmp_path, lambda label, number, frame: f"{N_FRAMES * number + frame:05}.jpg")
    assert suggest_groups(paths, prints) is None
