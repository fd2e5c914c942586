"""The workspace: a folder that people, the page and other programs change, and that stays whole."""

import io
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import time
from datetime import datetime

import numpy as np
import pytest
from PIL import Image

from drawn import write_drives
from midfea import load
from midfea.pictures.likeness import N_VALUES
from midfea.serve.errors import Clash, Missing, Refused
from midfea.serve.store import files as files_module
from midfea.serve.store.decoding import decode_image
from midfea.serve.store.names import class_name, file_name
from midfea.serve.store.workspace import Workspace
from midfea.serve.training.features import KeptFeatures, forget_other_chains
from midfea.serve.training.job import train
from midfea.serve.training.phases import Comparison, TrainingSettings
from midfea.serve.training.placing import known_models
from midfea.serve.training.record import TrainingRecord
from serving import id_of, noise


@pytest.fixture
def workspace(tmp_path):
    made = Workspace(tmp_path / "work")
    yield made
    made.close()


def add(workspace, label, seed=0, name=None):
    return workspace.changes.add(label, name or f"{seed}.png", io.BytesIO(noise(seed)))


def labels(workspace):
    return {image.id: image.label for image in workspace.images.all()}


def files(workspace):
    return sorted(
        str(p.relative_to(workspace.images.folder)) for p in workspace.images.folder.rglob("*.*")
    )


# -- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["", "  ", "../x.png", "a/b.png", "a\\b.png", "..", ".hidden", "a\0.png", "a\nb", "\x7f", "a" * 101,
     "ä" * 101, "\N{RIGHT-TO-LEFT OVERRIDE}gnp.exe", "\ud800"],
)  # fmt: skip
def test_names_that_are_refused(name):
    for check in (class_name, file_name):
        with pytest.raises(Refused) as refused:
            check(name)
        assert "\0" not in str(refused.value)


@pytest.mark.parametrize(
    "name", ["<img src=x onerror=alert(1)>", "Ärger 2", "猫", "a..b", "C++", "50 %", "x" * 100]
)
def test_names_that_are_kept_as_they_are(name):
    assert class_name(f" {name} ") == name


def test_what_looks_the_same_is_the_same():
    assert class_name("A\N{COMBINING DIAERESIS}") == "Ä"


# -- images ---------------------------------------------------------------------------------------


def test_an_image_lies_in_the_folder_of_its_class(workspace):
    image = add(workspace, "cats", 1)
    assert files(workspace) == ["cats/1.png"]
    assert workspace.images.path(image).read_bytes() == noise(1)
    assert (image.id, image.width, image.height) == (id_of(noise(1)), 48, 48)
    assert Image.open(io.BytesIO(workspace.thumbnails.get(image.id))).format == "WEBP"
    assert not list(workspace.incoming.folder.glob("[!l]*")), "nothing unfinished is left"


def test_the_same_image_again_is_accepted_once(workspace):
    first = add(workspace, "cats", 1)
    assert add(workspace, "cats", 1, "other name.png") == first
    assert files(workspace) == ["cats/1.png"]
    with pytest.raises(Clash, match="already in the class “cats”"):
        add(workspace, "dogs", 1)
    assert [count.name for count in workspace.images.classes()] == ["cats"]


def test_another_image_of_the_same_name_is_kept_beside_it(workspace):
    add(workspace, "cats", 1, "photo.png")
    second = add(workspace, "cats", 2, "photo.png")
    assert files(workspace) == [f"cats/photo-{second.id[:8]}.png", "cats/photo.png"]


def test_a_name_without_an_ending_gets_one(workspace):
    assert add(workspace, "cats", 1, "webcam").name == "webcam.png"
    assert add(workspace, "cats", 2, "notes.txt").name == "notes.txt.png"


def refused(workspace, content, *words):
    with pytest.raises(Refused) as error:
        workspace.changes.add("cats", "x.png", io.BytesIO(content))
    for word in words:
        assert word in str(error.value)
    assert files(workspace) == []
    assert not list(workspace.incoming.folder.glob("[!l]*"))


def test_what_is_no_image_is_refused(workspace):
    whole = noise(0, 200)
    refused(workspace, b"", "empty")
    refused(workspace, b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not a readable image")
    refused(workspace, whole[: len(whole) // 2], "not a readable image")
    refused(workspace, b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 50 50\n", "not a readable image")
    refused(workspace, noise(0, 15), "15x15", "16x16")


def test_what_is_too_large_is_refused_before_it_is_decoded(workspace, monkeypatch):
    bomb = io.BytesIO()
    Image.new("1", (20_000, 10_000)).save(bomb, "PNG")
    assert len(bomb.getvalue()) < 100_000
    monkeypatch.setattr(
        "midfea.pictures.decoding.ImageFile.pixels", lambda file: pytest.fail("was decoded")
    )
    refused(workspace, bomb.getvalue(), "60 megapixels")
    wide = io.BytesIO()
    Image.new("1", (9_000, 7_000)).save(wide, "PNG")
    refused(workspace, wide.getvalue(), "9000x7000", "60 megapixels")
    refused(workspace, bytes(33_000_000), "32 MB")


def test_kinds_of_images(workspace):
    pixels = np.random.RandomState(0).randint(0, 255, (40, 30, 3)).astype(np.uint8)
    for kind in ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF"):
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, kind)
        image = workspace.changes.add("all", kind, io.BytesIO(file.getvalue()))
        assert (image.width, image.height) == (30, 40)
        assert decode_image(workspace.images.path(image)).thumbnail


def test_a_move_is_a_rename(workspace):
    image = add(workspace, "cats", 1)
    number = workspace.images.path(image).stat().st_ino
    moved = workspace.changes.move(image.id, "dogs")
    assert files(workspace) == ["dogs/1.png"]
    assert workspace.images.path(moved).stat().st_ino == number
    assert labels(workspace) == {image.id: "dogs"}
    add(workspace, "cats", 2, "1.png")
    assert workspace.changes.move(moved.id, "cats").name == f"1-{image.id[:8]}.png"
    assert [count.images for count in workspace.images.classes()] == [2, 0]


def test_an_image_that_is_moved_away_and_back_has_its_name_again(workspace):
    """Names may be catalogue numbers; in the other class another file has this one."""
    image, other = add(workspace, "cats", 1, "IMG_5063.png"), add(workspace, "dogs", 2, "IMG_5063.png")
    before = {path: (workspace.images.folder / path).read_bytes() for path in files(workspace)}
    moved = workspace.changes.move(image.id, "dogs")
    assert moved.name == f"IMG_5063-{image.id[:8]}.png"
    assert workspace.changes.move(image.id, "birds").name == "IMG_5063.png"
    assert workspace.changes.move(image.id, "dogs").name == moved.name
    assert workspace.changes.move(image.id, "cats") == image
    assert {path: (workspace.images.folder / path).read_bytes() for path in files(workspace)} == before
    assert workspace.images.find(other.id).name == "IMG_5063.png"


def test_the_own_name_is_known_after_a_restart(tmp_path):
    first = Workspace(tmp_path)
    image = add(first, "cats", 1, "7.png")
    add(first, "dogs", 2, "7.png")
    first.changes.move(image.id, "dogs")
    first.close()
    second = Workspace(tmp_path)
    assert second.changes.move(image.id, "cats").name == "7.png"
    second.close()


def test_a_name_given_by_hand_is_kept(workspace):
    """Also one that looks like ours, and one that was given after ours."""
    like_ours = f"7-{id_of(noise(1))[:8]}.png"
    image = add(workspace, "cats", 1, like_ours)
    assert [workspace.changes.move(image.id, to).name for to in ("dogs", "cats")] == [like_ours] * 2
    add(workspace, "dogs", 2, like_ours)
    moved = workspace.changes.move(image.id, "dogs")
    os.rename(workspace.images.path(moved), workspace.images.folder / "dogs" / "by hand.png")
    look_again(workspace)
    assert workspace.changes.move(image.id, "cats").name == "by hand.png"


def test_no_file_is_overwritten_by_a_move(workspace):
    image = add(workspace, "cats", 1, "7.png")
    taken = ["7.png", f"7-{image.id[:8]}.png"]
    for seed, name in enumerate(taken, start=2):
        add(workspace, "dogs", seed, name)
    os.symlink("nowhere", workspace.images.folder / "dogs" / f"7-{image.id[:8]}-2.png")
    assert workspace.changes.move(image.id, "dogs").name == f"7-{image.id[:8]}-3.png"
    assert len(labels(workspace)) == 3
    assert workspace.changes.move(image.id, "cats").name == "7.png"


def test_checked_labels_are_remembered(tmp_path):
    first, second = Workspace(tmp_path), Workspace(tmp_path)
    image, other = add(first, "cats", 1), add(first, "cats", 2)
    version = first.images.version
    first.changes.set_checked(image.id, True)
    first.changes.set_checked(other.id, True)
    first.changes.set_checked(other.id, False)
    assert first.images.version > version  # pages that are open look again
    first.changes.move(image.id, "dogs")
    assert first.notes.checked == second.notes.checked == {image.id}
    first.close(), second.close()
    shutil.rmtree(tmp_path / ".midfea")  # what can be made again
    third = Workspace(tmp_path)
    assert third.notes.checked == {image.id}
    with pytest.raises(Missing):
        third.changes.set_checked("f" * 20, True)
    third.close()


@pytest.mark.parametrize(
    "content",
    ["half of it {", "[]", '{"checked": ["../x"], "renamed": {}}', '{"checked": 3, "renamed": {}}',
     '{"checked": [], "renamed": {"%s": ["1.png", "../../out.png"]}}',
     '{"checked": [], "renamed": {"x": 1}}'],
)  # fmt: skip
def test_notes_from_elsewhere_cannot_harm(workspace, content):
    image = add(workspace, "cats", 1)
    (workspace.root / "notes.json").write_text(content.replace("%s", image.id))
    assert workspace.notes.checked == frozenset()
    assert workspace.changes.move(image.id, "dogs").name == "1.png"
    workspace.changes.set_checked(image.id, True)
    assert workspace.notes.checked == {image.id}


def test_removed_images_are_gone(workspace):
    image = add(workspace, "cats", 1)
    workspace.changes.remove(image.id)
    assert files(workspace) == []
    assert not workspace.thumbnails.file(image.id).exists()
    for again in (workspace.changes.remove, workspace.images.find, workspace.thumbnails.get):
        with pytest.raises(Missing):
            again(image.id)
    with pytest.raises(Missing):
        workspace.changes.move("../../etc/passwd", "cats")


# -- classes --------------------------------------------------------------------------------------


def test_classes_are_made_renamed_and_removed(workspace):
    assert workspace.changes.add_class(" cats ") == "cats"
    for name in ("cats", "CATS"):
        with pytest.raises(Clash, match="there is a class “cats”"):
            workspace.changes.add_class(name)
    with pytest.raises(Clash, match="case"):
        add(workspace, "Cats", 1)
    image = add(workspace, "cats", 1)
    workspace.changes.add_class("dogs")
    with pytest.raises(Clash):
        workspace.changes.rename_class("cats", "Dogs")
    assert workspace.changes.rename_class("cats", "Cats") == "Cats"
    assert labels(workspace) == {image.id: "Cats"}
    assert workspace.images.path(workspace.images.find(image.id)).is_file()
    with pytest.raises(Clash, match="1 images"):
        workspace.changes.remove_class("Cats")
    workspace.changes.remove_class("Cats", with_images=True)
    assert labels(workspace) == {}
    assert [count.name for count in workspace.images.classes()] == ["dogs"]
    for missing in (workspace.changes.remove_class, workspace.images.of_class):
        with pytest.raises(Missing):
            missing("Cats")


# -- others change the folder ---------------------------------------------------------------------


def look_again(workspace):
    workspace.watch.refresh(max_age=0)


def test_what_is_done_by_hand_is_seen(workspace):
    image = add(workspace, "cats", 1)
    version = workspace.images.version
    folder = workspace.images.folder / "birds"
    folder.mkdir()
    (folder / "2.png").write_bytes(noise(2))
    (folder / "notes.txt").write_text("no image")
    (folder / "broken.png").write_bytes(b"no image either")
    (folder / ".hidden.png").write_bytes(noise(3))
    look_again(workspace)
    assert labels(workspace) == {image.id: "cats", id_of(noise(2)): "birds"}
    assert workspace.images.version > version
    os.rename(folder / "2.png", workspace.images.folder / "cats" / "2.png")
    workspace.images.path(image).unlink()
    look_again(workspace)
    assert labels(workspace) == {id_of(noise(2)): "cats"}
    assert workspace.thumbnails.get(id_of(noise(2)))
    os.rename(workspace.images.folder / "cats", workspace.images.folder / "kittens")
    look_again(workspace)
    assert labels(workspace) == {id_of(noise(2)): "kittens"}
    assert [count.name for count in workspace.images.classes()] == ["birds", "kittens"]


def test_what_it_did_itself_is_no_change(workspace):
    for seed in (3, 1, 2):
        add(workspace, "cats", seed)
    version = workspace.images.version
    look_again(workspace)
    workspace.watch.refresh(closely=True)
    assert workspace.images.version == version


def test_a_file_that_was_changed_in_its_place_is_seen_at_a_close_look(workspace):
    image = add(workspace, "cats", 1)
    workspace.images.path(image).write_bytes(noise(2))
    workspace.watch.refresh(closely=True)
    assert labels(workspace) == {id_of(noise(2)): "cats"}


def test_what_was_removed_by_hand_can_be_added_again(workspace):
    image = add(workspace, "cats", 1)
    workspace.images.path(image).unlink()
    assert add(workspace, "dogs", 1).label == "dogs"
    assert files(workspace) == ["dogs/1.png"]


def test_duplicates_made_by_hand_are_one_image(workspace):
    image = add(workspace, "cats", 1)
    for path in ("cats/copy.png", "dogs/copy.png"):
        (workspace.images.folder / path).parent.mkdir(exist_ok=True)
        (workspace.images.folder / path).write_bytes(noise(1))
    look_again(workspace)
    assert [image.id for image in workspace.images.of_class("cats")] == [image.id]
    assert len(workspace.images.all()) == 1
    workspace.changes.move(image.id, "dogs")
    assert len(files(workspace)) == 1
    assert labels(workspace) == {image.id: "dogs"}


def test_a_file_that_is_moved_while_it_is_read_is_not_forgotten(workspace, monkeypatch):
    """What could not be opened must not be remembered as no image: a move leaves the file the same."""
    folder = workspace.images.folder / "birds"
    folder.mkdir()
    (folder / "2.png").write_bytes(noise(2))
    real = files_module.FileIndex.read

    def move_and_read(index, path):
        listing = list(files_module.image_files(path))
        os.rename(folder / "2.png", folder / "3.png")
        monkeypatch.setattr(files_module, "image_files", lambda _: listing)
        return real(index, path)

    monkeypatch.setattr(files_module.FileIndex, "read", move_and_read)
    look_again(workspace)
    monkeypatch.undo()
    look_again(workspace)
    assert labels(workspace) == {id_of(noise(2)): "birds"}


def test_an_unchanged_folder_is_not_read_again(tmp_path, monkeypatch):
    first = Workspace(tmp_path)
    kept = [add(first, "cats", seed).id for seed in range(3)]
    first.close()
    monkeypatch.setattr("midfea.serve.store.files.read_header", lambda file: pytest.fail("was read"))
    second = Workspace(tmp_path)
    assert set(labels(second)) == set(kept)
    second.close()
    (tmp_path / ".midfea" / "index.json").write_text('[[1, 2, "broken"')
    monkeypatch.undo()
    third = Workspace(tmp_path)
    assert set(labels(third)) == set(kept)
    third.close()


def test_what_is_gone_is_forgotten(tmp_path):
    first = Workspace(tmp_path)
    gone, kept = add(first, "cats", 1), add(first, "cats", 2)
    first.images.path(gone).unlink()
    first.watch.refresh(closely=True)
    first.thumbnails.sweep()
    first.close()
    assert not first.thumbnails.file(gone.id).exists() and first.thumbnails.file(kept.id).exists()
    index = (tmp_path / ".midfea" / "index.json").read_text()
    assert kept.id in index and gone.id not in index


def test_what_a_process_left_behind_is_swept_but_not_what_another_is_writing(tmp_path):
    first = Workspace(tmp_path)
    writing = first.incoming.new()
    writing.write_bytes(b"half")
    left = tmp_path / ".midfea" / "incoming" / "0123456789abcdef"
    left.mkdir()
    (left / "half").write_bytes(b"half")
    second = Workspace(tmp_path)
    assert writing.exists()
    assert not left.exists()
    first.close()
    second.close()


def _add_many(folder, start, queue):
    workspace = Workspace(folder)
    for seed in range(start, start + 20):
        image = add(workspace, ("cats", "dogs")[seed % 2], seed, f"{seed % 5}.png")
        if seed % 4 == 0:
            image = workspace.changes.move(image.id, "birds")
        queue.put((image.id, image.label))
    workspace.close()


def test_several_processes_at_once(tmp_path):
    """Each name is used by several images: nothing may be overwritten."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    folder = str(tmp_path / "work")
    Workspace(folder).close()
    writers = [context.Process(target=_add_many, args=(folder, 1000 * i, queue)) for i in range(2)]
    for writer in writers:
        writer.start()
    expected_labels = dict(queue.get(timeout=60) for _ in range(40))
    for writer in writers:
        writer.join(30)
        assert writer.exitcode == 0
    workspace = Workspace(folder)
    assert labels(workspace) == expected_labels
    workspace.close()


def test_a_failing_disk_accepts_nothing(workspace, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(OSError, match="No space"):
        add(workspace, "cats", 1)
    monkeypatch.undo()
    assert files(workspace) == []
    assert labels(workspace) == {}
    assert add(workspace, "cats", 1).label == "cats"


ADD = """
import sys
from midfea.serve.store.workspace import Workspace
workspace = Workspace(sys.argv[1])
with open(sys.argv[2], "rb") as file:
    workspace.changes.add("cats", "1.png", file)
workspace.close()
"""


def test_an_accepted_image_is_on_the_disk(tmp_path):
    """As the kernel saw it: the file is synced, gets its name, and the folder of its class is synced."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    (tmp_path / "x.png").write_bytes(noise(1))
    log, folder = tmp_path / "log", tmp_path / "work"
    traced = [strace, "-f", "-y", "-o", log, "-e", "trace=fsync,rename,renameat,renameat2"]
    command = [sys.executable, "-c", ADD, folder, tmp_path / "x.png"]
    subprocess.run([*traced, *command], check=True)
    calls = log.read_text().splitlines()
    (named,) = (i for i, call in enumerate(calls) if "rename" in call and "/images/cats/1.png" in call)
    unfinished = re.search(r"/incoming/\w+/\w+", calls[named]).group()
    assert any("fsync" in call and unfinished in call for call in calls[:named])
    assert any(f"{folder}/images/cats>" in call for call in calls[named:] if "fsync" in call)


def test_thousands_of_images_are_listed_quickly(tmp_path):
    folder = tmp_path / "images" / "many"
    folder.mkdir(parents=True)
    for seed in range(300):
        (folder / f"{seed}.png").write_bytes(noise(seed, 16))
    workspace = Workspace(tmp_path)
    assert workspace.images.classes()[0].images == 300
    begun = time.perf_counter()
    look_again(workspace)
    assert time.perf_counter() - begun < 0.1
    workspace.close()


# -- features, records ----------------------------------------------------------------------------


def test_features_are_kept_by_content(tmp_path):
    ids = [id_of(noise(seed)) for seed in range(5)]
    features = np.random.RandomState(0).randn(5, 7).astype(np.float32)
    kept = KeptFeatures(tmp_path, "chain")
    prints = np.random.RandomState(1).rand(5, N_VALUES).astype(np.float32)
    kept.add(ids[:3], ids[:3], prints[:3], features[:3])
    kept.add(ids[3:], ids[3:], prints[3:], features[3:])
    again = KeptFeatures(tmp_path, "chain")
    np.testing.assert_array_equal(again.rows([ids[4], ids[0], ids[3]]), features[[4, 0, 3]])
    np.testing.assert_array_equal(again.prints([ids[4], ids[0]]), prints[[4, 0]])
    near = again.nearest(features[2], ids[1:], 2)
    assert near[0] == (ids[2], pytest.approx(0, abs=1e-6))
    assert near[1][0] != ids[0]
    assert not KeptFeatures(tmp_path, "another").places
    (tmp_path / "chain" / "000001.safetensors").write_bytes(b"damaged")
    assert set(KeptFeatures(tmp_path, "chain").places) == set(ids[:3])
    forget_other_chains(tmp_path, {"another"})
    assert not (tmp_path / "chain").exists()


def test_the_page_keeps_series_and_near_duplicates_together(tmp_path):
    paths = write_drives(tmp_path / "work" / "images")
    with Image.open(paths[0]) as image:
        image.convert("RGB").save(paths[0].parent / "copy.webp", quality=90)
    workspace = Workspace(tmp_path / "work")
    try:
        for _ in range(2):  # from images, then from features that were kept
            train(workspace, TrainingSettings("fast"), lambda **message: None)
            series = known_models(workspace)[0].record.series
            assert series.startswith("60 images look like series of photos, by names and likeness")
            validation = load(workspace.model_file.path).validation_
            assert (len(validation), validation.n_groups) == (61, 12)
    finally:
        workspace.close()


def test_records_belong_to_one_model(tmp_path):
    record = TrainingRecord(
        "x.midfea",
        datetime.now(),
        settings=TrainingSettings(neurons=3),
        ids=("a" * 20,),
        compared=Comparison("best", 9, "fast", 8, 10, 3),
    )
    record.write(tmp_path, "a" * 20)
    assert TrainingRecord.read(tmp_path, "a" * 20) == record
    assert TrainingRecord.read(tmp_path, "b" * 20) is None
    os.rename(tmp_path / f"{'a' * 20}.json", tmp_path / f"{'b' * 20}.json")
    assert TrainingRecord.read(tmp_path, "b" * 20) is None
    (tmp_path / f"{'c' * 20}.json").write_text('{"version": 2, "half of it')
    assert TrainingRecord.read(tmp_path, "c" * 20) is None


def test_a_model_is_clearly_worse_only_beyond_chance():
    ids = [f"{i}" for i in range(100)]

    def compared(n_lost, n_won):
        best = dict.fromkeys(ids, True) | dict.fromkeys(ids[:n_lost], False)
        fast = dict.fromkeys(ids, True) | dict.fromkeys(ids[n_lost : n_lost + n_won], False)
        return Comparison.of("best", best, "fast", fast | {"only here": True})

    found = compared(3, 2)
    assert (found.correct, found.other_correct, found.images, found.n_differ) == (97, 98, 100, 5)
    assert [compared(*counts).is_clearly_worse for counts in ((3, 2), (10, 3), (11, 2), (0, 9))] == [
        False, False, True, False,
    ]  # fmt: skip
    assert Comparison.of("best", {}, "fast", {}).images == 0
