"""Extract: each image has one row or one error, whatever happens to files, processes and disks."""

import io
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pyarrow.parquet as pq
import pytest
from filelock import FileLock
from PIL import Image

import midfea
from command import fails_in_one_line
from command import midfea as command
from many import MODEL, corrupt, encoded, write_parquet, write_photos, write_tar, write_zip
from midfea.engines import EngineSettings
from midfea.scale.extract import ABOUT, LOCK, ONE_PROCESS, extract
from midfea.scale.local import DecodeProcesses, Processes
from midfea.scale.manifest import Row, write_manifest
from midfea.scale.shards import DONE, ERRORS, ROWS, Columns, Results, Shard, ShardFolder, cut
from small import SMALL

EXECUTORS = pytest.mark.parametrize("executor", [Processes(2), DecodeProcesses(2)])
N_PHOTOS, BAD = 40, (3, 9, 16, 22, 30)  # corrupt in five ways


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return write_photos(tmp_path_factory.mktemp("photos"), N_PHOTOS, BAD)


@pytest.fixture(scope="module")
def manifest(photos, tmp_path_factory):
    path = tmp_path_factory.mktemp("manifest") / "m.parquet"
    write_manifest([str(photos)], path)
    return path


@pytest.fixture(scope="module")
def uninterrupted(manifest, tmp_path_factory):
    """Features of the manifest in shards of 4."""
    folder = tmp_path_factory.mktemp("whole") / "features"
    extract(manifest, folder, MODEL, shard_size=4)
    return folder


def table(folder, kind):
    """All rows, or errors, in the order of the shards."""
    parts = [pq.read_table(path) for path in sorted((folder / kind).glob("*.parquet"))]
    return [row for part in parts for row in part.to_pylist()]


def assert_equal(folder, other):
    for kind in (ROWS, ERRORS):
        assert table(folder, kind) == table(other, kind)
    assert not list(folder.rglob("*.unfinished"))


def test_rows_are_the_features_of_the_model(photos, uninterrupted):
    rows, errors = table(uninterrupted, ROWS), table(uninterrupted, ERRORS)
    files = sorted(photos.rglob("*.png"))
    assert sorted(row["id"] for row in rows + errors) == list(range(N_PHOTOS))
    assert {row["address"] for row in errors} == {str(p) for p in files if int(p.stem) in BAD}
    assert all(row["reason"] and "\n" not in row["reason"] for row in errors)
    kept = [files[row["id"]] for row in rows]
    assert [row["label"] for row in rows] == [path.parent.name for path in kept]
    model = midfea.load(MODEL)
    features = np.array([row["feature"] for row in rows], dtype=np.float32)
    np.testing.assert_allclose(features, model.features(kept), atol=1e-6)


def test_schema_and_about(uninterrupted, manifest):
    schema = pq.read_schema(uninterrupted / ROWS / "000000.parquet")
    assert str(schema.field("feature").type) == "fixed_size_list<element: float>[630]"
    about = json.loads((uninterrupted / ABOUT).read_text())
    assert about["counts"] == {"rows": N_PHOTOS - len(BAD), "errors": len(BAD), "unreadable": 0}
    assert about["settings"]["what"] == "features" and about["manifest"] == str(manifest)
    assert about["about"]["versions"]["midfea"] == midfea.__version__


def test_scores_and_half_precision(manifest, uninterrupted, tmp_path):
    extract(manifest, tmp_path / "f", MODEL, what="both", dtype="float16", shard_size=100)
    schema = pq.read_schema(tmp_path / "f" / ROWS / "000000.parquet")
    assert str(schema.field("feature").type) == "fixed_size_list<element: halffloat>[630]"
    rows, exact = table(tmp_path / "f", ROWS), table(uninterrupted, ROWS)
    half = [row["feature"] for row in rows]
    np.testing.assert_allclose(half, [row["feature"] for row in exact], atol=1e-3)
    model = midfea.load(MODEL)
    files = [row.as_py() for row in pq.read_table(manifest)["address"]]
    scores = model.decision_function([files[row["id"]] for row in rows])
    np.testing.assert_allclose([row["scores"] for row in rows], scores, atol=1e-4)
    extract(manifest, tmp_path / "s", MODEL, what="scores", shard_size=100)
    assert pq.read_schema(tmp_path / "s" / ROWS / "000000.parquet").names == [
        *("id", "label", "scores", "belonging")
    ]
    share = model.belonging([files[row["id"]] for row in rows])
    assert [row["belonging"] for row in rows] == [None if np.isnan(x) else x for x in share]
    classes = json.loads((tmp_path / "s" / ABOUT).read_text())["classes"]
    assert classes == model.classes_.tolist()


def test_models_without_classes_have_features_only(photos, uninterrupted, tmp_path, surfaces):
    model = midfea.MidFea(**SMALL).fit(surfaces[0][:6])
    model.save(tmp_path / "m.midfea")
    files = sorted((photos / "dogs").glob("*.png"))[2:4]  # 5 and 7
    pattern = photos / "dogs" / "000[57].png"
    extract(pattern, tmp_path / "f", tmp_path / "m.midfea")
    features = [row["feature"] for row in table(tmp_path / "f", ROWS)]
    np.testing.assert_allclose(features, model.features(files), atol=1e-6)
    with pytest.raises(ValueError, match=r"holds a MidFea, which has no scores: type --what features"):
        extract(pattern, tmp_path / "s", tmp_path / "m.midfea", what="scores")


def test_every_kind_of_source_gives_the_same_rows(photos, uninterrupted, tmp_path):
    files = sorted(photos.rglob("*.png"))
    content = {path.relative_to(photos).as_posix(): path.read_bytes() for path in files}
    write_tar(tmp_path / "a.tar", content)
    write_zip(tmp_path / "a.zip", content)
    labels = [path.parent.name for path in files]
    write_parquet(tmp_path / "a.parquet", list(content.values()), labels, row_group_size=16)
    expected = table(uninterrupted, ROWS)
    for source in (photos, tmp_path / "a.tar", tmp_path / "a.zip", tmp_path / "a.parquet"):
        folder = tmp_path / f"of-{source.name}"
        done = extract(source, folder, MODEL, shard_size=4)
        assert (done.counts.rows, done.counts.errors) == (N_PHOTOS - len(BAD), len(BAD))
        assert table(folder, ROWS) == expected


@EXECUTORS
def test_two_processes_give_the_same_rows(manifest, uninterrupted, tmp_path, executor):
    done = extract(manifest, tmp_path / "f", MODEL, shard_size=4, executor=executor)
    assert len(done.shards) == 10 and done.n_kept == 0
    assert_equal(tmp_path / "f", uninterrupted)


KILLING = """
import os, signal, sys
from midfea.scale.extract import extract
from midfea.scale.local import DecodeProcesses, Processes

def kill_before(event, arguments):
    if event == "os.rename":
        renamed.append(arguments)
        if len(renamed) == {nth}:
            os.kill(os.getpid(), signal.SIGKILL)

renamed = []
sys.addaudithook(kill_before)
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests may run in the background
    extract({manifest!r}, {folder!r}, {model!r}, shard_size=4, executor={executor})
"""


def start(tmp_path, manifest, executor=ONE_PROCESS, nth=0, new_session=False):
    """A process that extracts into a folder "f", and kills itself before it names its nth file."""
    names = {"manifest": str(manifest), "folder": str(tmp_path / "f"), "model": str(MODEL)}
    (tmp_path / "run.py").write_text(KILLING.format(**names, executor=executor, nth=nth))
    line = [sys.executable, tmp_path / "run.py"]
    return subprocess.Popen(line, stderr=subprocess.DEVNULL, start_new_session=new_session)


def test_after_kill_9_a_run_goes_on(manifest, uninterrupted, tmp_path):
    """Killed three times: when rows, errors and a marker were written but had no name yet."""
    written = {}
    for nth, n_whole in ((2, 0), (5, 1), (9, 3)):  # the first run begins with _about.json
        process = start(tmp_path, manifest, nth=nth)
        assert process.wait() == -signal.SIGKILL
        assert len(list((tmp_path / "f").rglob("*.unfinished"))) == 1
        assert n_done(tmp_path / "f") == n_whole
        assert written.items() <= (written := times(tmp_path / "f")).items()
    assert extract(manifest, tmp_path / "f", MODEL, shard_size=4).n_kept == 3
    assert_equal(tmp_path / "f", uninterrupted)
    assert written.items() <= times(tmp_path / "f").items()


@EXECUTORS
def test_processes_end_with_a_parent_that_was_killed(manifest, uninterrupted, tmp_path, executor):
    children = []
    with start(tmp_path, manifest, executor) as process:
        listed = f"/proc/{process.pid}/task/{process.pid}/children"
        if not os.path.exists(listed):
            pytest.skip("this system does not list the children of a process")
        while len(children) < 3 and process.poll() is None:  # two, and multiprocessing's own
            with open(listed) as file:
                children = [int(number) for number in file.read().split()]
        process.kill()
    assert len(children) == 3
    deadline = time.monotonic() + 20
    while any(is_running(child) for child in children):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    extract(manifest, tmp_path / "f", MODEL, shard_size=4)
    assert_equal(tmp_path / "f", uninterrupted)


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@EXECUTORS
def test_ctrl_c_leaves_nothing_unfinished(photos, tmp_path, executor):
    long = tmp_path / "m.parquet"
    write_manifest([str(photos)] * 10, long)  # seconds in all
    process = start(tmp_path, long, executor, new_session=True)
    while process.poll() is None and n_done(tmp_path / "f") < 2:
        time.sleep(0.001)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers, too
    assert process.wait(20) == -signal.SIGINT
    assert not list(tmp_path.rglob("*.unfinished"))
    assert 2 <= n_done(tmp_path / "f") < 100


@EXECUTORS
def test_a_process_that_was_killed_is_said(photos, tmp_path, executor):
    long = tmp_path / "m.parquet"
    write_manifest([str(photos)] * 10, long)

    def kill_one():
        while not (children := multiprocessing.active_children()):
            time.sleep(0.01)
        children[0].kill()

    killer = threading.Thread(target=kill_one)
    killer.start()
    with pytest.raises(ChildProcessError, match=r"a \w+ process ended.* type the same command again"):
        extract(long, tmp_path / "f", MODEL, shard_size=4, executor=executor)
    killer.join()


def test_the_torch_engine_gives_the_same_rows(manifest, uninterrupted, tmp_path):
    """Exactly, if other processes decode for it; to rounding, beside the engine cpu."""
    pytest.importorskip("torch")
    engine = EngineSettings("torch", "cpu")
    for name, executor in (("here", Processes(1)), ("fed", DecodeProcesses(2))):
        extract(manifest, tmp_path / name, MODEL, shard_size=15, executor=executor, engine=engine)
    assert_equal(tmp_path / "fed", tmp_path / "here")
    assert table(tmp_path / "fed", ERRORS) == table(uninterrupted, ERRORS)
    rows, expected = table(tmp_path / "fed", ROWS), table(uninterrupted, ROWS)
    assert [(row["id"], row["label"]) for row in rows] == [(row["id"], row["label"]) for row in expected]
    features = [row["feature"] for row in rows]
    np.testing.assert_allclose(features, [row["feature"] for row in expected], atol=1e-5)


def times(folder):
    return {path: path.stat().st_mtime_ns for path in (folder / DONE).glob("*.json")}


def n_done(folder):
    return len(list((folder / DONE).glob("*.json")))


def test_shards_that_were_deleted_cut_or_changed_are_made_again(manifest, uninterrupted, tmp_path):
    folder = shutil.copytree(uninterrupted, tmp_path / "f")
    (folder / ROWS / "000001.parquet").unlink()
    os.truncate(folder / ROWS / "000003.parquet", 100)
    os.truncate(folder / ERRORS / "000004.parquet", 0)
    (folder / DONE / "000005.json").unlink()
    (folder / DONE / "000006.json").write_text('{"rows": 4')
    changed = bytearray((folder / ROWS / "000008.parquet").read_bytes())
    changed[300] ^= 1
    (folder / ROWS / "000008.parquet").write_bytes(changed)
    (folder / ROWS / ".000009.parquet.12.unfinished").touch()
    done = extract(manifest, folder, MODEL, shard_size=4)
    assert len(done.shards) - done.n_kept == 6
    assert_equal(folder, uninterrupted)


def test_another_run_than_was_begun_is_refused(manifest, photos, uninterrupted, tmp_path):
    folder = shutil.copytree(uninterrupted, tmp_path / "f")
    other = tmp_path / "other.parquet"
    write_manifest([str(photos / "cats")], other)
    with pytest.raises(ValueError, match=r"begun with another manifest .*: name a new folder"):
        extract(other, folder, MODEL, shard_size=4)
    with pytest.raises(ValueError, match="begun with another model"):
        extract(manifest, folder, MODEL.with_name("fast-v2.midfea"), shard_size=4)
    with pytest.raises(ValueError, match="begun with what 'features', now 'both'"):
        extract(manifest, folder, MODEL, what="both", shard_size=4)
    with pytest.raises(ValueError, match="shard_size 4, now 5"):
        extract(manifest, folder, MODEL, shard_size=5)
    with pytest.raises(ValueError, match="what is one of features, scores, both"):
        extract(manifest, folder, MODEL, what="pixels")
    (folder / ABOUT).write_text("{}")
    with pytest.raises(ValueError, match="not written by midfea extract, or damaged"):
        extract(manifest, folder, MODEL, shard_size=4)
    with pytest.raises(ValueError, match="holds other files"):
        extract(manifest, photos, MODEL)


def test_two_runs_never_write_to_one_folder(manifest, tmp_path):
    extract(manifest, tmp_path, MODEL, shard_size=100)
    with FileLock(tmp_path / LOCK), pytest.raises(ValueError, match="another midfea extract is writing"):
        extract(manifest, tmp_path, MODEL, shard_size=100)


def test_a_folder_that_changed_is_refused_and_its_manifest_goes_on(tmp_path):
    photos = write_photos(tmp_path / "p", 6)
    extract(photos, tmp_path / "f", MODEL, shard_size=4)
    assert extract(photos, tmp_path / "f", MODEL, shard_size=4).n_kept == 2
    (photos / "cats/new.png").write_bytes(encoded(1))
    with pytest.raises(ValueError, match=r"its images have changed since .* was begun"):
        extract(photos, tmp_path / "f", MODEL, shard_size=4)
    again = extract(tmp_path / "f/_manifest.parquet", tmp_path / "f", MODEL, shard_size=4)
    assert again.n_kept == 2


def test_files_that_vanished_are_errors_until_they_are_back(tmp_path):
    photos = write_photos(tmp_path / "p", 8, bad=(6,))
    tar = write_tar(tmp_path / "p/z.tar", {f"x/{i}.png": encoded(i) for i in range(4)})
    write_manifest([str(photos)], tmp_path / "m.parquet")
    run = (tmp_path / "m.parquet", tmp_path / "f", MODEL)
    (photos / "cats").rename(tmp_path / "away")
    tar.rename(tmp_path / "away.tar")
    gone = extract(*run, shard_size=4).counts
    assert (gone.rows, gone.errors, gone.unreadable) == (4, 8, 8)
    assert {row["reason"] for row in table(tmp_path / "f", ERRORS)} == {"no such file"}
    (tmp_path / "away").rename(photos / "cats")
    (tmp_path / "away.tar").rename(tar)
    assert extract(*run, shard_size=4).counts == gone  # only if that is asked for
    back = extract(*run, shard_size=4, retry=True)
    assert (back.counts.rows, back.counts.errors, back.counts.unreadable) == (11, 1, 0)
    assert back.n_kept == 1


def test_corrupt_images_in_archives_end_nothing(tmp_path):
    files = {f"{i}.jpg": corrupt(i) for i in range(5)} | {"good.jpg": encoded(1)}
    files |= {"small.png": small_image(), "large.jpg": encoded(2)}
    archive = write_zip(tmp_path / "a.zip", files)
    damaged = bytearray(archive.read_bytes())
    begin = damaged.index(b"large.jpg") + 30
    damaged[begin : begin + 40] = bytes(40)
    archive.write_bytes(damaged)
    done = extract(archive, tmp_path / "f", MODEL)
    assert (done.counts.rows, done.counts.errors, done.counts.unreadable) == (1, 7, 0)
    reasons = {row["address"].partition("#")[2]: row["reason"] for row in table(tmp_path / "f", ERRORS)}
    assert "at least 7x7 are needed" in reasons["small.png"] and "unpacked" in reasons["large.jpg"]
    assert reasons["0.jpg"] == "is empty" and "not a readable image" in reasons["1.jpg"]


def small_image():
    file = io.BytesIO()
    Image.new("L", (3, 90)).save(file, "PNG")
    return file.getvalue()


def test_a_full_disk_is_said_and_nothing_is_lost(manifest, uninterrupted, tmp_path, small_disk):
    subprocess.run(["mount", "-o", "remount,size=100k", small_disk], check=True)
    folder = small_disk / "f"
    with pytest.raises(OSError, match=r"cannot be written .* type the same command again"):
        extract(manifest, folder, MODEL, shard_size=4)
    n_before = n_done(folder)
    assert 0 < n_before < 10
    subprocess.run(["mount", "-o", "remount,size=1m", small_disk], check=True)
    assert extract(manifest, folder, MODEL, shard_size=4).n_kept == n_before
    assert_equal(folder, uninterrupted)


def test_a_folder_that_cannot_be_written_is_said(manifest, small_disk):
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(OSError, match="Read-only file system"):
        extract(manifest, small_disk / "f", MODEL)


def test_two_that_write_one_shard_are_never_mixed(tmp_path):
    """One has a row where the other has an error: what has its marker is whole, or it is said."""
    shard, row = Shard(0, 0, 1), Row(0, "a.png", "cats")
    one = Results(rows=[row], features=[np.zeros((1, 3), np.float32)])
    other = Results(errors=[(row, "no such file")], n_unreadable=1)
    folder = ShardFolder(tmp_path, Columns(3, 0))
    folder.prepare()
    said = []

    def write(results):
        try:
            folder.write(shard, results)
        except OSError as error:
            said.append(str(error))

    for _ in range(100):
        n_said, pair = len(said), [threading.Thread(target=write, args=(r,)) for r in (one, other)]
        for thread in pair:
            thread.start()
        for thread in pair:
            thread.join()
        assert folder.counts(shard) is not None or len(said) > n_said
    assert all("does another run write it?" in line for line in said)


def test_shards_cover_a_manifest_once():
    for n, size in ((1, 1), (10, 3), (9, 3), (2, 100)):
        ids = [shard.first + i for shard in cut(n, size) for i in range(shard.n_images)]
        assert ids == list(range(n))


def test_command(photos, tmp_path):
    folder = tmp_path / "f"
    result = command("extract", photos, "-o", folder, "--model", MODEL, "--jobs", 1, "--what", "both")
    assert "Images: 40 images, 2 classes: cats, dogs\n" in result.stdout
    assert f"Features: {folder} (35 rows, 5 errors, 1 shards, " in result.stdout
    assert result.returncode == 0


def test_engines_of_the_command(photos, tmp_path):
    pytest.importorskip("torch")
    line = ("extract", photos, "-o", tmp_path / "f", "--model", MODEL)
    fails_in_one_line(command(*line, "--device", "cpu"), "--device cpu is for --engine torch")
    nowhere = command(*line, "--engine", "torch", "--device", "nowhere")
    fails_in_one_line(nowhere, "--device nowhere: ")
    assert not (tmp_path / "f").exists()
    fed = command(*line, "--engine", "torch", "--device", "cpu", "--jobs", 2)
    assert fed.returncode == 0 and "(35 rows, 5 errors, 1 shards, " in fed.stdout
