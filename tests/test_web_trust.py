"""The server among files and requests that nobody vouches for."""

import io
import json
import os
from datetime import datetime

import numpy as np
import pytest
from safetensors.numpy import save_file

from midfea import MidFeaClassifier
from midfea.serve.store.files import file_id
from midfea.serve.store.workspace import Workspace
from midfea.serve.training.features import KeptFeatures
from midfea.serve.training.record import TrainingRecord, TrainingSettings
from serving import Server, id_of, noise, png
from small import SMALL


@pytest.fixture(scope="module")
def model(tmp_path_factory, surfaces):
    """A model file, trained in a moment."""
    path = tmp_path_factory.mktemp("model") / "small.midfea"
    MidFeaClassifier(**SMALL).fit(*surfaces).save(path)
    return path


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("trust") / "work") as running:
        yield running


# -- workspaces made by others --------------------------------------------------------------------


def with_model(folder, model):
    folder.mkdir(exist_ok=True)
    (folder / "model.midfea").write_bytes(model.read_bytes())
    return file_id(model)


def test_a_record_cannot_name_a_place_out_of_the_workspace(tmp_path, model, surfaces):
    """Training would keep features there, and remove all that lies beside them."""
    outside, folder = tmp_path / "outside", tmp_path / "work"
    id = with_model(folder, model)
    record = TrainingRecord("x", datetime.now(), settings=TrainingSettings("paper"), n_learned_from=100)
    for chain in (str(outside), "../../../outside", "..", "0123456789abcdef\n"):
        TrainingRecord(**{**vars(record), "chain": chain}).write(folder / ".midfea" / "results", id)
        assert TrainingRecord.read(folder / ".midfea" / "results", id) is None
    TrainingRecord(**{**vars(record), "chain": str(outside)}).write(folder / ".midfea" / "results", id)
    with Server(folder) as running:
        for i, (image, label) in enumerate(zip(*surfaces, strict=True)):
            running.upload(str(label), (f"{i}.png", png(np.asarray(image, dtype=np.uint8))))
        assert running.train(preset="paper")["state"] == "done"
    assert not outside.exists()


def test_ids_of_a_record_must_be_ids(tmp_path):
    for ids in (("../../x",), ("A" * 20,), ("a" * 19,), ("a" * 20, 3)):
        TrainingRecord("x", datetime.now(), ids=ids).write(tmp_path, "a" * 20)
        assert TrainingRecord.read(tmp_path, "a" * 20) is None


@pytest.mark.parametrize("number", ["[" * 100_000, "NaN", "1e999", "{}"])
def test_a_record_that_is_nonsense_is_no_record(tmp_path, number):
    TrainingRecord("x", datetime.now(), seconds=1.5).write(tmp_path, "a" * 20)
    assert TrainingRecord.read(tmp_path, "a" * 20).seconds == 1.5
    file = tmp_path / f"{'a' * 20}.json"
    file.write_text(file.read_text().replace("1.5", number))
    assert TrainingRecord.read(tmp_path, "a" * 20) is None


def test_an_index_from_elsewhere_cannot_name_files(tmp_path):
    """A thumbnail lies under the id of its image: an id must not lead out of the folder."""
    first = Workspace(tmp_path)
    image = first.changes.add("cats", "1.png", io.BytesIO(noise(1)))
    first.close()
    index = tmp_path / ".midfea" / "index.json"
    rows = json.loads(index.read_text())
    for bad in ("../../../evil", None, 7, "x" * 20):
        index.write_text(json.dumps([[*row[:3], bad, *row[4:]] for row in rows]))
        again = Workspace(tmp_path)
        assert [each.id for each in again.images.all()] == [image.id]
        again.close()
    index.unlink()
    os.mkfifo(index)  # reading it would wait for ever
    again = Workspace(tmp_path)
    assert [each.id for each in again.images.all()] == [image.id]
    again.close()


@pytest.mark.parametrize("place", ["images", ".midfea", ".midfea/features", ".midfea/lock"])
def test_links_where_the_workspace_writes_are_refused(tmp_path, place):
    outside, link = tmp_path / "outside", tmp_path / "work" / place
    outside.mkdir()
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)
    with pytest.raises(ValueError, match="is a link"):
        Workspace(tmp_path / "work")
    assert not list(outside.iterdir())


def test_links_among_the_images_are_not_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "1.png").write_bytes(noise(1))
    (tmp_path / "work" / "images" / "own").mkdir(parents=True)
    (tmp_path / "work" / "images" / "cats").symlink_to(outside)
    (tmp_path / "work" / "images" / "own" / "1.png").symlink_to(outside / "1.png")
    with Server(tmp_path / "work") as running:
        assert running.state()["classes"] == [{"name": "own", "images": 0}]
        answer = running.upload("cats", ("2.png", noise(2)))
        assert "link" in answer["refused"][0]["error"]
    assert [path.name for path in outside.iterdir()] == ["1.png"]


def test_features_that_do_not_fit_are_computed_again(tmp_path):
    ids = [id_of(noise(seed)) for seed in range(3)]
    features = np.zeros((3, 7), dtype=np.float32)
    KeptFeatures(tmp_path, "chain").add(ids, ids, features)
    packed = np.zeros((3, 10), dtype=np.uint8)
    for i, arrays in enumerate(
        (
            {"ids": packed, "pixels": packed[:2], "features": features},
            {"ids": packed, "pixels": packed, "features": features[:2]},
            {"ids": packed, "pixels": packed, "features": features.astype(np.float64)},
            {"ids": packed.astype(np.float32), "pixels": packed, "features": features},
            {"ids": packed, "pixels": packed},
        )
    ):
        save_file(arrays, tmp_path / "chain" / f"bad{i}.safetensors")
    os.mkfifo(tmp_path / "chain" / "pipe.safetensors")
    kept = KeptFeatures(tmp_path, "chain")
    assert list(kept.places) == ids
    assert kept.nearest(np.zeros(5), ids, 2) == [], "of another model"
    kept.add([id_of(noise(9))], [id_of(noise(9))], features[:1])
    assert len(KeptFeatures(tmp_path, "chain").places) == 4
