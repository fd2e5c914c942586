"""Groups as a user names them: a folder, a pattern, a column of a table."""

from pathlib import Path

import pytest

from midfea.datasets import read_groups

PHOTOS = Path("photos")
PATHS = [
    PHOTOS / name for name in ("cats/anna-1.jpg", "cats/anna-2.jpg", "dogs/anna-1.jpg", "dogs/ben-7.jpg")
]


def test_a_pattern_gives_the_same_group_in_every_class():
    assert read_groups(r"regex:^(\w+)-", PHOTOS, PATHS) == ["anna", "anna", "anna", "ben"]
    assert read_groups("regex:anna|ben", PHOTOS, PATHS) == ["anna", "anna", "anna", "ben"]


def test_a_pattern_with_a_slash_sees_the_class_too():
    assert read_groups("regex:^(.+/.+)-", PHOTOS, PATHS) == [
        "cats/anna",
        "cats/anna",
        "dogs/anna",
        "dogs/ben",
    ]


def test_the_folder_inside_the_class_folder_is_a_group():
    paths = [PHOTOS / name for name in ("cats/day1/1.jpg", "cats/day2/1.jpg", "dogs/day1/2.jpg")]
    assert read_groups("folder", PHOTOS, paths) == ["day1", "day2", "day1"]
    with pytest.raises(ValueError, match=r"4 images lie directly .*: cats/anna-1.jpg, .*, \.\.\."):
        read_groups("folder", PHOTOS, PATHS)


def test_a_table_names_files_in_any_usual_way(tmp_path):
    table = tmp_path / "people.csv"
    given = f"{table}:person"
    names = ["cats/anna-1.jpg", "photos/cats/anna-2.jpg", str(Path("photos/dogs/anna-1.jpg").resolve())]
    lines = ["person,file", *(f"Anna,{name}" for name in names), "Ben,ben-7.jpg", "Eve,not/there.jpg"]
    table.write_text("\n".join(lines), encoding="utf-8-sig")
    assert read_groups(given, PHOTOS, PATHS) == ["Anna", "Anna", "Anna", "Ben"]


def test_an_image_without_an_entry_is_a_group_of_its_own(tmp_path):
    table = tmp_path / "people.csv"
    table.write_text("name,person\ncats/anna-1.jpg,\ncats/anna-2.jpg,\ndogs/anna-1.jpg,A\nben-7.jpg,A\n")
    groups = read_groups(f"{table}:person", PHOTOS, PATHS)
    assert len(set(groups)) == 3 and groups[2] == groups[3]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            "person",
            r"--groups person: not one of auto, none, folder, 'regex:PATTERN' or FILE.csv:COLUMN",
        ),
        ("regex:(", "not a regular expression"),
        (r"regex:^(\w+)-[12]", r"1 images do not match: dogs/ben-7.jpg"),
        ("regex:jpg", "all images are in one group, 'jpg'"),
        ("none.csv:person", "none.csv: no such file"),
        ("table.csv:group", "no column 'group'; it has file, person"),
        ("table.csv:person", r"2 images are not in the table: dogs/anna-1.jpg, dogs/ben-7.jpg"),
        ("twice.csv:person", "cats/anna-1.jpg is there twice, as 'A' and as 'B'"),
        ("bare.csv:person", "several images are named 'anna-1.jpg': write CLASS/anna-1.jpg"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path, monkeypatch, given, message):
    monkeypatch.chdir(tmp_path)
    Path("table.csv").write_text("file,person\ncats/anna-1.jpg,A\ncats/anna-2.jpg,B\n")
    Path("twice.csv").write_text("file,person\ncats/anna-1.jpg,A\ncats/anna-1.jpg,B\n")
    Path("bare.csv").write_text("file,person\nanna-1.jpg,A\nanna-2.jpg,B\nben-7.jpg,B\n")
    with pytest.raises(ValueError, match=message):
        read_groups(given, PHOTOS, PATHS)
