"""Wrong folders and arguments: each is told what was found, and the exact command to type."""

import os
import shutil
import sys
from pathlib import Path

import pytest
from PIL import Image

from midfea.cli import main
from midfea.cli.common import warn_nested
from midfea.datasets import load_folder
from midfea.datasets.diagnosis import WrongFolder, check_layout

MODEL = Path(__file__).parent / "data" / "fast-v2.midfea"


def make(root, **folders):
    """Small images by folder: the names of the files in each."""
    for folder, names in folders.items():
        (root / folder).mkdir(parents=True, exist_ok=True)
        for name in names.split():
            Image.new("L", (20, 20), len(name)).save(root / folder / name, "PNG")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An own folder to be in, with photos of two classes in it, and a model."""
    home = tmp_path / "home" / "me"
    make(home / "photos", cats="1.jpg 2.jpg 3.jpg", dogs="4.jpg 5.jpg")
    monkeypatch.chdir(home)
    return home


@pytest.fixture
def model(here):
    shutil.copy(MODEL, here / "pets.midfea")


@pytest.fixture
def said(monkeypatch, capsys):
    """The line in which the command, run with these words, says what is wrong."""

    def run(line, *more):
        monkeypatch.setattr(sys, "argv", ["midfea", *line.split(), *more])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 1
        return capsys.readouterr().err.splitlines()[-1].removeprefix("midfea: error: ")

    return run


# -- folders to learn from --------------------------------------------------------------------------


def test_one_class_is_given_for_all(here, said):
    assert said("train photos/cats --seed 3") == (
        "photos/cats: 3 images, but no class folders. It looks like one class, beside 'dogs' (2): "
        "give the folder of all classes. Type: midfea train photos --seed 3"
    )
    os.chdir("photos/dogs")
    assert said("train .").endswith("Type: midfea train ..")


def test_images_without_class_folders(here, said):
    make(here / "holiday", all="IMG_1.jpg DSC_1.jpg IMG_2.jpg DSC_2.jpg")
    assert said("train holiday/all") == (
        "holiday/all: 4 images, but no class folders. Make a folder for each class and move its images "
        "there, such as holiday/all/cats/DSC_1.jpg"
    )


def test_classes_in_the_names_of_files_come_with_the_commands_that_sort_them(here, said):
    make(here, flat="cat_01.jpg cat_02.jpg dog.1.jpg dog.2.jpg", own="a")
    message = said("train flat -o new.midfea")
    assert message == (
        "flat: 4 images, but no class folders. Their names begin with 'cat' (2) and 'dog' (2): "
        "move them into folders of these names. Type: mkdir flat/cat flat/dog && "
        "mv flat/cat_* flat/cat && mv flat/dog.* flat/dog && midfea train flat -o new.midfea"
    )
    typed = message.partition("Type: ")[2].rpartition(" && ")[0]
    assert os.system(typed) == 0
    assert [len(folder.images) for folder in check_layout(here / "flat").folders] == [2, 2]


def test_labels_in_a_table_are_not_read(here, said):
    make(here, **{"flat/images": "a1.jpg b1.jpg b2.jpg"})
    (here / "flat/labels.csv").write_text("file,label\na1.jpg,cat\nimages/b1.jpg,dog\nb2,dog\n")
    no_tables = "labels.csv names them, but midfea takes labels from folders, not from tables."
    assert said("train flat/images") == (
        f"flat/images: 3 images, but no class folders. flat/{no_tables} Make a folder for each class "
        "and move its images there, such as flat/images/cats/a1.jpg"
    )
    assert f"flat: one class only, 'images'. flat/{no_tables}" in said("train flat")


def test_pictures_that_are_not_read_are_counted(here, said):
    make(here, **{"phone/cats": "1.CR2 2.CR2", "phone/my dogs": "3.PSD logo.svg 4.cr2"})
    assert said("train phone") == (
        "phone: no images found that midfea reads, but pictures in other formats: 3 .cr2, 1 .psd, "
        "1 .svg. Save them as JPEG or PNG, with ImageMagick for example, folder by folder. "
        "Type: magick mogrify -format jpg phone/cats/*.CR2"
    )


def test_pictures_that_are_not_read_are_skipped_with_a_reason(here, said, capsys):
    make(here / "photos", cats="6.nef notes.txt", **{".": "loose.jpg"})
    data = load_folder("photos")
    assert len(data.images) == 5
    assert data.skipped == [
        (Path("photos/loose.jpg"), "lies beside the class folders, in none of them"),
        (Path("photos/cats/6.nef"), "midfea does not read .nef files: save it as JPEG or PNG"),
    ]


@pytest.mark.parametrize(
    ("train", "test"), [("train", "test"), ("training", "testing"), ("train", "valid")]
)
def test_parts_of_a_set_are_no_classes(here, model, said, train, test):
    make(here / "my set", **{f"{part}/{kind}": "1.jpg" for part in (train, test) for kind in "ab"})
    parts = " and ".join(map(repr, sorted((train, test))))
    found = (
        f"my set: {parts} are parts of one set, not classes; the classes are a, b. "
        f"Train on my set/{train} and evaluate on my set/{test}. Type: "
    )
    assert said("train -o m.midfea", "my set") == (
        f"{found}midfea train -o m.midfea 'my set/{train}' && midfea evaluate m.midfea 'my set/{test}'"
    )
    assert said("evaluate pets.midfea", "my set") == (
        f"{found}midfea evaluate pets.midfea 'my set/{test}'"
    )
    assert said("compare", "--data=my set") == f"{found}midfea compare '--data=my set/{train}'"


def test_a_test_part_without_classes_can_be_predicted(here, said):
    make(here / "set", **{"train/a": "1.jpg", "train/b": "2.jpg", "test": "3.jpg"})
    assert said("train set") == (
        "set: 'test' and 'train' are parts of one set, not classes; the classes are a, b. Train on "
        "set/train; set/test has no class folders: it can be predicted, but not evaluated. "
        "Type: midfea train set/train && midfea predict model.midfea set/test"
    )


def test_classes_may_be_called_train_and_test(here):
    make(here / "railway", train="1.jpg", test="2.jpg")
    assert load_folder("railway").target.tolist() == ["test", "train"]


def test_folders_inside_classes_are_named(here, monkeypatch, capsys):
    make(here / "nested", **{"animals/cats": "1.jpg 2.jpg", "animals/dogs": "3.jpg", "plants": "4.jpg"})
    data = load_folder("nested")
    assert data.target.tolist() == ["animals", "animals", "animals", "plants"]
    monkeypatch.setattr(sys, "argv", ["midfea", "train", "nested"])
    warn_nested(data)
    assert capsys.readouterr().err.splitlines() == [
        "midfea: 1 of 2 classes hold folders, which count as one class:",
        "midfea:   nested/animals: cats (2), dogs (1). To tell them apart, type: "
        "midfea train nested/animals",
    ]
    warn_nested(load_folder("photos"))
    assert capsys.readouterr().err == ""


def test_classes_one_folder_deeper(here, said):
    make(here / "zip", **{"photos/a": "1.jpg", "photos/b": "2.jpg"})
    assert said("train zip") == (
        "zip: one class only, 'photos', which holds the folders a and b: these look like the classes. "
        "Type: midfea train zip/photos"
    )


def test_empty_folders(here, said):
    expected = "Expected one folder for each class with images in it, such as"
    (here / "new" / "a").mkdir(parents=True)
    (here / "new" / "b").mkdir()
    assert said("train new/a") == (
        f"new/a: no images found: the folder is empty. {expected} new/a/cats/1.jpg"
    )
    assert said("train new") == (
        f"new: no images found: its folders are empty (a, b). {expected} new/cats/1.jpg"
    )
    (here / "new" / "a" / "list.txt").touch()
    assert said("train new") == (
        f"new: no images found among its files (1 .txt). {expected} new/cats/1.jpg"
    )


def test_a_single_class(here, said):
    shutil.rmtree("photos/dogs")
    assert said("train photos") == (
        "photos: one class only, 'cats'. A classifier needs two folders of images or more, "
        "one for each class"
    )


def test_files_in_place_of_folders(here, said):
    shutil.copy("photos/cats/1.jpg", "x.jpg")
    expected = "Expected one folder for each class with images in it, such as"
    assert said("train x.jpg") == (f"x.jpg: an image file, not a folder. {expected} photos/cats/x.jpg")
    assert said("train photos/cats/1.jpg") == (
        "photos/cats/1.jpg: an image file, not a folder. Give the folder that holds the class folders. "
        "Type: midfea train photos"
    )
    (here / "more photos.zip").touch()
    assert said("train", "more photos.zip") == (
        "more photos.zip: a file, not a folder. Unpack it first. "
        "Type: unzip 'more photos.zip' -d 'more photos' && midfea train 'more photos'"
    )


def test_mistyped_names(here, model, said):
    assert said("train phtos") == "phtos: no such folder. Did you mean photos? Type: midfea train photos"
    assert said("train nowhere") == "nowhere: no such folder"
    assert said("predict pet.midfea photos") == (
        "pet.midfea: no such model file. Did you mean pets.midfea? "
        "Type: midfea predict pets.midfea photos"
    )
    assert said("explain pets.midfea photos/cats/l.jpg").startswith(
        "photos/cats/l.jpg: no such file. Did you mean photos/cats/"
    )


def test_a_mistyped_image_is_named_among_the_skipped(here, model, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["midfea", "predict", "pets.midfea", "photos/cats/1.jpgg"])
    with pytest.raises(SystemExit):
        main()
    said = capsys.readouterr().err
    assert "photos/cats/1.jpgg: no such file (did you mean photos/cats/1.jpg?)" in said
    monkeypatch.setattr(sys, "argv", ["midfea", "predict", "pets.midfea", "x" * 300])
    with pytest.raises(SystemExit):
        main()
    assert "too long" in capsys.readouterr().err


def test_the_library_says_it_in_python():
    with pytest.raises(WrongFolder, match=r"no such folder$"):
        load_folder("nowhere at all")


def test_the_library_names_the_folder_to_load(here):
    with pytest.raises(
        ValueError, match=r"give the folder of all classes\. Type: load_folder\('photos'\)"
    ):
        load_folder("photos/cats")


# -- models and workspaces --------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_folder_and_model_are_swapped(here, model, said, command):
    assert said(f"{command} photos pets.midfea --jobs 1") == (
        "pets.midfea is the model file, not photos: it comes first. "
        f"Type: midfea {command} pets.midfea photos --jobs 1"
    )


def test_image_and_model_are_swapped(here, model, said):
    assert said("explain photos/cats/1.jpg pets.midfea") == (
        "pets.midfea is the model file, not photos/cats/1.jpg: it comes first. "
        "Type: midfea explain pets.midfea photos/cats/1.jpg"
    )


@pytest.mark.parametrize("command", ["train", "compare"])
def test_a_model_is_no_folder(here, model, said, command):
    assert said(f"{command} pets.midfea") == (
        "pets.midfea: a model file. Here belongs the folder that holds one folder of images for each "
        f"class, such as: midfea {command} photos"
    )


def test_a_folder_is_no_model(here, said):
    assert said("export photos") == (
        "photos: a folder, not a model file. Train a model first. "
        "Type: midfea train photos -o model.midfea && midfea export model.midfea"
    )
    shutil.copy(MODEL, here / "photos")
    assert said("export photos") == (
        "photos: a folder, not a model file. Did you mean photos/fast-v2.midfea? "
        "Type: midfea export photos/fast-v2.midfea"
    )


def test_a_folder_is_no_image(here, model, said):
    assert said("explain pets.midfea photos/dogs") == (
        "photos/dogs: a folder, not an image: name one image. "
        "Type: midfea explain pets.midfea photos/dogs/4.jpg"
    )


def test_photos_are_no_workspace(here, said):
    typed = (
        "To make a workspace with a copy of them, type: mkdir photos-workspace && "
        "cp -r photos photos-workspace/images && midfea serve --workspace photos-workspace"
    )
    assert said("serve photos") == f"photos: a folder of 5 images, not a model file. {typed}"
    assert said("serve --workspace photos") == (
        "photos: a folder of 5 images, not a workspace, which holds them in its folder 'images'. "
        f"{typed}"
    )
    assert sorted(os.listdir("photos")) == ["cats", "dogs"]
    (here / "pets" / "images").mkdir(parents=True)
    assert said("serve pets") == (
        "pets: a workspace, not a model file. Type: midfea serve --workspace pets"
    )


def test_classes_that_the_model_knows_lie_deeper(here, model, said):
    from midfea import load

    a, b = load(MODEL).classes_[:2]
    make(here / "new", **{f"july/{a}": "1.jpg", f"july/{b}": "2.jpg", "plants": "3.jpg"})
    for image in (here / "new").rglob("*.jpg"):
        Image.new("L", (100, 100)).save(image)
    assert said("evaluate pets.midfea new") == (
        f"new: the classes ({a}, {b}) lie deeper, in new/july. "
        "Type: midfea evaluate pets.midfea new/july"
    )
