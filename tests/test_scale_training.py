"""From a manifest to a model: some images at first, then the features of all."""

import json
import shutil
from collections import Counter

import numpy as np
import pytest
from scipy.stats import chisquare
from sklearn.svm import LinearSVC

import midfea
from command import fails_in_one_line
from command import midfea as command
from many import MODEL, write_features, write_photos
from midfea.scale import training
from midfea.scale.extract import ABOUT
from midfea.scale.feature_rows import FeatureRows
from midfea.scale.manifest import Manifest, write_manifest
from midfea.scale.sample import draw_rows, read_sample
from midfea.scale.shards import ROWS
from midfea.scale.training import train_on_features

NAMES = ["ants", "bees", "cats"]


def features(n, seed=0):
    """Rows as long as those of MODEL, and labels: one in 20 is wrong, one in 50 is missing."""
    rng = np.random.RandomState(seed)
    p = midfea.load(MODEL).extractor_.n_features
    y = rng.randint(3, size=n)
    x = np.maximum(rng.randn(n, p) + 0.3 * np.random.RandomState(1).randn(3, p)[y], 0)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    wrong = rng.rand(n) < 0.05
    y[wrong] = rng.randint(3, size=wrong.sum())
    labels = [None if i % 50 == 7 else NAMES[k] for i, k in enumerate(y)]
    return x.astype(np.float32), labels


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    x, labels = features(1500)
    x[5] = x[9]
    return write_features(tmp_path_factory.mktemp("shards") / "f", x, labels, 200)


@pytest.fixture
def by_blocks(monkeypatch):
    monkeypatch.setattr(training, "MAX_ROWS_IN_MEMORY", 100)


def test_block_by_block_as_in_memory(folder, by_blocks, monkeypatch):
    large = train_on_features(folder)
    monkeypatch.setattr(training, "MAX_ROWS_IN_MEMORY", 10_000)
    small = train_on_features(folder)
    assert (large.by_blocks, small.by_blocks) == (True, False)
    assert (large.n_images, large.n_without_label, large.n_errors, large.n_equal) == (1470, 30, 0, 1)
    assert large.model.C_ == small.model.C_
    assert list(large.model.classes_) == NAMES
    x, labels = features(1500)
    x[5] = x[9]
    known = [i for i, label in enumerate(labels) if label]
    exact = LinearSVC(C=large.model.C_, tol=1e-9, max_iter=1_000_000)
    exact.fit(x[known], [labels[i] for i in known])
    x, labels = features(4000, seed=2)
    ours, theirs = (trained.model.head_.scores(x) for trained in (large, small))
    expected = exact.decision_function(x)
    np.testing.assert_allclose(ours, expected, atol=1e-4 * np.abs(expected).max())
    np.testing.assert_allclose(ours, theirs, atol=5e-4)  # the solver in memory stops earlier
    true = np.array([NAMES.index(label) if label else -1 for label in labels])
    accuracy = (ours.argmax(axis=1) == true)[true >= 0].mean()
    interval = large.model.validation_.interval
    assert interval.low <= accuracy <= interval.high
    assert large.model.validation_.how.endswith("in 1 of 10 folds")
    assert large.model.belonging_ is not None
    beyond = midfea.load(MODEL).extractor_.n_features
    noise = np.random.RandomState(3).randn(200, beyond).astype(np.float32)
    parts = large.model.parts_
    assert np.median(parts.belonging_of(parts.head.scores(noise), noise)) < 0.05
    assert np.median(parts.belonging_of(ours, x)) > 0.2


def test_float16_and_another_shard_size_change_little(folder, by_blocks, tmp_path):
    x, labels = features(1500)
    x[5] = x[9]
    half = write_features(tmp_path / "half", x, labels, 333, dtype="float16")
    ours, theirs = (train_on_features(where).model.head_.scores(x) for where in (half, folder))
    np.testing.assert_allclose(ours, theirs, atol=0.02)


def test_a_layer_is_learned_from_some_and_the_svm_from_all(folder, by_blocks, tmp_path):
    model = midfea.load(MODEL).set_params(selectivity=midfea.NeuronSelectivity(6, max_iter=2))
    x, labels = features(1500)
    known = [i for i, label in enumerate(labels) if label]
    model.fit_head(x[known], [labels[i] for i in known]).save(tmp_path / "layer.midfea")
    about = json.loads((folder / ABOUT).read_text())
    own = shutil.copytree(folder, tmp_path / "own")
    about["settings"]["model_sha256"] = training.file_sha256(tmp_path / "layer.midfea")
    (own / ABOUT).write_text(json.dumps(about))
    trained = train_on_features(own, tmp_path / "layer.midfea").model
    assert trained.head_.coef.shape == (3, 6)
    assert trained.validation_.accuracy > 0.8


def test_features_that_cannot_be_used(folder, tmp_path):
    def refused(change, match, **about):
        own = shutil.copytree(folder, tmp_path / "own", dirs_exist_ok=True)
        if about:
            found = json.loads((own / ABOUT).read_text())
            (own / ABOUT).write_text(json.dumps(found | about))
        change(own)
        with pytest.raises((ValueError, OSError), match=match):
            train_on_features(own)
        shutil.rmtree(own)

    def nothing(own):
        pass

    shard = f"{ROWS}/000003.parquet"
    refused(
        lambda own: (own / shard).unlink(), "1 of 8 shards are missing or damaged, the first is 000003"
    )
    refused(lambda own: (own / shard).write_bytes(b"PAR1"), "type the same midfea extract again")
    refused(lambda own: (own / ABOUT).unlink(), "here belongs a folder that midfea extract has written")
    refused(lambda own: (own / ABOUT).write_text("{}"), "not written by this midfea extract, or damaged")
    refused(nothing, "holds scores only: type midfea extract with --what", n_features=0)
    refused(nothing, r"gone.midfea: there is no such file any more.* --model", model="gone.midfea")
    other = MODEL.with_name("fast-v2.midfea")
    refused(nothing, "not the model that has computed the features", model=str(other))
    x, labels = features(100)
    one = write_features(tmp_path / "one", x, ["ants"] * 100, 50)
    with pytest.raises(ValueError, match="two classes or more, and there is only 'ants'"):
        train_on_features(one)
    none = write_features(tmp_path / "none", x, [None] * 100, 50)
    with pytest.raises(ValueError, match="and there is none: labels are those of the manifest"):
        train_on_features(none)
    x[8, 3] = np.nan
    damaged = write_features(tmp_path / "nan", x, labels, 50)
    with pytest.raises(ValueError, match="features are not all finite"):
        train_on_features(damaged)


def test_a_file_that_changes_while_it_is_read_is_said(folder, tmp_path):
    own = shutil.copytree(folder, tmp_path / "own")
    rows = FeatureRows(own)
    shutil.copy(own / ROWS / "000007.parquet", own / ROWS / "000002.parquet")  # 100 rows, not 200
    with pytest.raises(OSError, match=r"000002.parquet: has changed while it was read"):
        list(rows.blocks())
    (own / ROWS / "000002.parquet").write_bytes(b"PAR1")
    with pytest.raises(OSError, match=r"000002.parquet: damaged"):
        list(rows.blocks())


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    top = tmp_path_factory.mktemp("sample")
    photos = write_photos(top / "photos", 60, bad=(3, 10))
    lines = [f"photos/cats/{i:04}.png" for i in range(0, 60, 2)]  # once more, without a label
    (top / "list.txt").write_text("\n".join(lines))
    write_manifest([str(photos), str(top / "list.txt")], top / "m.parquet")
    return top / "m.parquet"


def test_each_labelled_row_is_drawn_as_often(manifest, monkeypatch):
    monkeypatch.setattr("midfea.scale.sample.ROWS_AT_ONCE", 7)
    listed, drawn = Manifest(manifest), Counter()
    for seed in range(300):
        rows, counts = draw_rows(listed, 20, seed)
        assert len(rows) == 20 and counts == {"cats": 30, "dogs": 30}
        assert [row.id for row in rows] == sorted(row.id for row in rows)
        drawn.update(row.id for row in rows)
    assert sorted(drawn) == list(range(60))  # those that have a label
    assert chisquare(list(drawn.values())).pvalue > 0.001
    assert draw_rows(listed, 20, 5) == draw_rows(listed, 20, 5)
    assert len(draw_rows(listed, 500, 0)[0]) == 60


def test_images_that_cannot_be_read_are_left_out_of_the_sample(manifest):
    sample = read_sample(Manifest(manifest), 100, 0, 150, 7)
    assert (len(sample.pictures), len(sample.labels), len(sample.left_out)) == (58, 58, 2)
    assert {place.path[-8:] for place in sample.left_out} == {"0003.png", "0010.png"}


def test_command(manifest, tmp_path):
    """A sample, the features of all, all features, answers: as the page says."""
    start, whole, folder = tmp_path / "start.midfea", tmp_path / "all.midfea", tmp_path / "f"
    listed = tmp_path / "skipped.csv"
    first = command(
        "train", manifest, "-o", start, "--preset", "fast", "--sample", 50, "--skipped", listed
    )
    assert "images of 2 classes, drawn from 90, in" in first.stdout
    assert f"midfea extract {manifest} -o features --model {start}" in first.stdout
    assert "skipped 2 of 50 files" in first.stderr and "0003.png" in listed.read_text()
    command("extract", manifest, "-o", folder, "--model", start, "--jobs", 1)
    then = command("train", "--features", folder, "-o", whole)
    assert "Learned from the features of 58 images of 2 classes in" in then.stdout
    assert "29 images without a label are left out" in then.stderr
    assert "Accuracy on new images:" in then.stdout and whole.exists()
    photo = manifest.parent / "photos/dogs/0001.png"
    assert "dogs" in command("predict", whole, photo).stdout

    start.rename(tmp_path / "moved.midfea")
    fails_in_one_line(command("train", "--features", folder, "-o", whole), "name it with --model")
    moved = command("train", "--features", folder, "-o", whole, "--model", tmp_path / "moved.midfea")
    assert moved.returncode == 0
    fails_in_one_line(
        command("train", "--features", folder, "--preset", "fast"), "--preset cannot be used with"
    )
    fails_in_one_line(command("train", manifest, "--features", folder), "the folder of images cannot")
    fails_in_one_line(command("train", manifest, "--report", tmp_path / "r.html"), "--report cannot")
    fails_in_one_line(command("train", "-o", whole), "name the folder of images")
