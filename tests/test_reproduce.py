"""The paper's protocols: splits, evaluation, keeping finished work, and the command."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from PIL import Image
from sklearn.utils import Bunch

from command import fails_in_one_line, midfea
from midfea import MidFea
from midfea.baselines.local_features import hog_maps, sift_maps
from midfea.baselines.svm_raw import SVMRaw
from midfea.cli.reproduce import PROTOCOL_HELP
from midfea.datasets import load_surfaces
from midfea.progress import reporting_to
from midfea.provenance import about, write_rows
from midfea.reproduce.claims import LIGHTS, attention_share, face_outline, light_ratios
from midfea.reproduce.evaluate import evaluate_classes, evaluate_numbers, evaluate_system
from midfea.reproduce.features import span_features
from midfea.reproduce.protocols import (
    PROTOCOLS,
    Method,
    Protocol,
    first_25,
    groups_of_people,
    sessions,
    thirty_per_class,
)
from midfea.reproduce.results import results_page, verdict, with_kept
from midfea.reproduce.run import run_protocol
from midfea.reproduce.systems import Compared
from midfea.trials import code_key, content_key

ROOT = Path(__file__).resolve().parents[1]
SMALL = {"n_words": 60, "projection": None, "floor": 0.5, "n_samples": 5000}


def surfaces(folder):
    data = load_surfaces(n_per_class=8, size=64)
    return Bunch(images=list(data.images), target=data.target, groups=None, missing=[])


def splits(data, trials, seed):
    rng = np.random.RandomState(seed)
    orders = [rng.permutation(len(data.target)) for _ in range(trials)]
    return [(np.sort(order[::2]), order[1::2]) for order in orders]


@pytest.fixture
def protocol():
    methods = (Method("SVM-raw", paper=50.0), Method("MidFea", SMALL), Method("MidFea-NS", SMALL, (1,)))
    return Protocol("six surfaces", surfaces, splits, methods, trials=2, size=(16, 16))


# -- splits -----------------------------------------------------------------------------------------


def test_thirty_of_each_class_and_the_rest():
    data = Bunch(target=np.repeat(["a", "b", "c"], [31, 40, 100]))
    (train, test), (other, _) = thirty_per_class(data, 2, seed=0)
    assert np.unique(data.target[train], return_counts=True)[1].tolist() == [30, 30, 30]
    assert sorted([*train, *test]) == list(range(171))
    assert train.tolist() != other.tolist()
    assert thirty_per_class(data, 1, seed=1)[0][0].tolist() == other.tolist()


def test_fixed_splits():
    data = Bunch(session=np.array([1, 2, 1]), person=np.array(["M-001", "M-026", "W-025"]))
    assert [part.tolist() for part in sessions(data, 2, 0)[1]] == [[0, 2], [1]]
    assert [part.tolist() for part in first_25(data, 1, 0)[0]] == [[0, 2], [1]]


def test_groups_of_people_are_tested_once_each():
    data = Bunch(groups=np.repeat(np.arange(20), 3))
    parts = groups_of_people(data, 1, 0)
    for train, test in parts:
        assert not set(data.groups[train]) & set(data.groups[test])
    assert sorted(np.concatenate([test for _, test in parts])) == list(range(60))


# -- features and evaluation ------------------------------------------------------------------------


def test_coordinates_in_the_span_keep_every_inner_product_with_training_samples(tmp_path):
    data = surfaces(None)
    train = np.arange(0, 48, 3)
    x = span_features(data.images, train, SMALL, 0, tmp_path)
    model = MidFea(**SMALL, random_state=0).fit([data.images[i] for i in train])
    plain = model.transform(data.images)
    assert x.shape[1] <= len(train) + 1 < plain.shape[1]
    assert_allclose(np.linalg.norm(x, axis=1), 1, atol=1e-3)
    assert_allclose(x @ x[train].T, plain @ plain[train].T, atol=1e-3)
    again = span_features(data.images, train, SMALL, 0, tmp_path)
    assert_allclose(again, x)
    assert len(list((tmp_path / "features").iterdir())) == 1
    span_features(data.images, train, SMALL, 1, tmp_path)
    assert len(list((tmp_path / "features").iterdir())) == 2


def test_content_key_tells_contents_apart():
    a, b = np.zeros((2, 3), np.uint8), np.zeros((3, 2), np.uint8)
    keys = [content_key(*parts) for parts in ([a], [b], [[a]], [a, 1], [a, {"x": 1}], [[a, a]])]
    assert len(set(keys)) == len(keys)
    assert content_key([a, b], {"x": 1, "y": 2}) == content_key([a, b], {"y": 2, "x": 1})


def test_content_key_changes_with_the_code(tmp_path, monkeypatch):
    """Numbers of another code are not found again."""
    before, key = code_key(), content_key("a")
    package = tmp_path / "midfea"
    (package / "stages").mkdir(parents=True)
    (package / "stages" / "new.py").write_text("x = 1")
    monkeypatch.setattr("midfea.trials.__file__", str(package / "trials.py"))
    code_key.cache_clear()
    try:
        assert code_key() != before and content_key("a") != key
    finally:
        code_key.cache_clear()


def test_both_accuracies():
    """Class a: 8 tests, all correct; class b: 2 tests, none correct. 50 and 80 percent."""
    x = np.array([[0.0]] * 6 + [[1.0]] * 6 + [[0.0]] * 10, dtype=np.float32)
    y = np.array(["a"] * 6 + ["b"] * 6 + ["a"] * 8 + ["b"] * 2)
    split = (np.arange(12), np.arange(12, 22))
    metrics = evaluate_classes(x, y, None, split, Method("x"), 0, most_tested=2, uncounted="b")
    assert metrics["mean per-class accuracy"] == 50
    assert metrics["accuracy"] == 80
    assert metrics["mean per-class accuracy, at most 2 tested"] == 50
    assert metrics["accuracy, b not counted"] == 100


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_each_person_is_tested_with_all_others_known(kernel):
    rng = np.random.RandomState(0)
    groups = np.repeat(np.arange(12), 5)
    age = rng.uniform(0, 60, size=60)
    x = np.stack([age / 60, rng.normal(scale=0.01, size=60)], axis=1).astype(np.float32)
    split = (np.flatnonzero(groups >= 4), np.flatnonzero(groups < 4))
    metrics = evaluate_numbers([x, x], age, groups, split, Method("x", kernel=kernel), 0)
    assert metrics["images of each person"] == [5, 5, 5, 5]
    assert max(metrics["error of each person"]) < 3


# -- running ----------------------------------------------------------------------------------------


def test_rows_and_the_same_again(protocol, tmp_path):
    rows, missing = run_protocol("six", protocol, tmp_path, cache=None)
    assert missing == []
    names = ["SVM-raw", "MidFea", "MidFea-NS", "MidFea-NS less MidFea"]
    assert [row["method"] for row in rows[::2]] == names
    assert rows[6]["mean"] == pytest.approx(rows[4]["mean"] - rows[2]["mean"], abs=2e-3)
    assert set(rows[0]) == {"dataset", "method", "metric", "mean", "std", "trials", "paper"}
    assert rows[0]["trials"] == 2 and rows[0]["paper"] == 50.0 and rows[2]["paper"] is None
    assert rows[2]["mean"] > 40  # six classes: 17 by chance
    assert run_protocol("six", protocol, tmp_path, cache=None)[0] == rows


def test_an_interrupted_run_goes_on(protocol, tmp_path):
    def interrupt(what, done, total):
        if what == "six" and done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), reporting_to(interrupt):
        run_protocol("six", protocol, tmp_path, cache=tmp_path)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "trials").iterdir()}
    assert len(kept) == 2
    rows, _ = run_protocol("six", protocol, tmp_path, cache=tmp_path)
    assert len(list((tmp_path / "trials").iterdir())) == 6
    assert all(path.stat().st_mtime_ns == at for path, at in kept.items())  # not made again
    assert rows == run_protocol("six", protocol, tmp_path, cache=None)[0]
    only = run_protocol("six", protocol, tmp_path, methods=["MidFea"], cache=tmp_path)[0]
    assert only == [row for row in rows if row["method"] == "MidFea"]


def test_compared_systems_say_their_times_and_what_others_reported(protocol, tmp_path):
    raw = Compared("raw", lambda seed: SVMRaw(random_state=seed), 60.0, 70.0, trials=1, max_tested=3)
    both = replace(protocol, compared=(raw,))
    rows, _ = run_protocol("six", both, tmp_path, methods=["raw", "SVM-raw"], cache=tmp_path)
    assert [row["method"] for row in rows] == ["SVM-raw"] * 2 + ["raw"]
    own, compared = rows[0], rows[2]
    assert compared["metric"] == own["metric"] and (own["trials"], compared["trials"]) == (2, 1)
    assert (compared["paper"], compared["published"], compared["max_tested"]) == (60.0, 70.0, 3)
    assert compared["seconds_to_train"] > 0 and compared["ms_per_image"] > 0
    again, _ = run_protocol("six", both, tmp_path, methods=["raw"], cache=tmp_path)
    assert again == rows[2:]
    assert "raw" not in {row["method"] for row in run_protocol("six", both, tmp_path, cache=tmp_path)[0]}


def test_only_the_first_images_of_a_class_are_tested():
    asked = []

    class Constant:
        def fit(self, images, y):
            return self

        def predict(self, images):
            asked.extend(images)
            return np.zeros(len(images), int)

    y = np.array([0, 1, 0, 1, 0, 1, 0, 0])
    system = Compared("constant", lambda seed: Constant(), max_tested=2)
    split = (np.array([0, 1]), np.arange(2, 8))
    metrics = evaluate_system(list(range(8)), y, None, split, system, seed=0)
    assert sorted(asked) == [2, 3, 4, 5] and metrics["mean per-class accuracy"] == 50
    assert "accuracy" not in metrics  # of all images, of which classes have other shares


def test_every_protocol_has_its_command():
    assert list(PROTOCOL_HELP) == list(PROTOCOLS)


def test_a_wrong_folder_fails_in_one_line(tmp_path):
    fails_in_one_line(midfea("reproduce", "ar-face", "--data", tmp_path), str(tmp_path), "AR")
    fails_in_one_line(midfea("reproduce", "caltech101", "--data", tmp_path / "no"), str(tmp_path / "no"))


def test_a_half_copied_set_names_what_is_missing(tmp_path):
    folder = tmp_path / "ar"
    folder.mkdir()
    for name in ("M-001-01", "M-001-02", "W-001-01"):
        Image.fromarray(np.zeros((60, 43), np.uint8)).save(folder / f"{name}.png")
    fails_in_one_line(midfea("reproduce", "ar-face", "--data", tmp_path), "M-001-03", "copy")


def test_unknown_rows_are_refused_before_any_work(tmp_path):
    fails_in_one_line(
        midfea("reproduce", "ar-face", "--data", tmp_path, "--method", "SIFT"), "SIFT", "MidFea-NS"
    )


# -- claims -----------------------------------------------------------------------------------------


def test_share_of_attention():
    outline = np.zeros((40, 40), bool)
    outline[10:30, 10:30] = True
    assert attention_share(np.ones((40, 40, 3)), outline) == pytest.approx(1)
    assert attention_share(outline[:, :, None].astype(float), outline) == pytest.approx(4)
    square = np.array([[10.0, 5.0], [20.0, 5.0], [20.0, 8.0], [10.0, 8.0]])  # x, y
    assert face_outline(square, (30, 30))[6, 15] and not face_outline(square, (30, 30))[15, 6]


def test_light_ratios_of_maps_that_see_people_or_lights_only():
    people = ["yaleB01", "yaleB02", "yaleB03"]
    images = [np.full((4, 4), 10 * p + at, np.uint8) for p in range(3) for at in range(5)]
    index = {(p, at): 5 * i + j for i, p in enumerate(people) for j, at in enumerate(LIGHTS)}
    assert light_ratios(lambda a: a[:, :, None] // 10, images, index, people) == [0, 0, 0]
    ratios = light_ratios(lambda a: a[:, :, None] % 10 + a[:, :, None] / 1e4, images, index, people)
    assert min(ratios) > 10


def test_local_features_are_maps_of_unit_length():
    image = load_surfaces(n_per_class=1, size=48).images[0]
    assert hog_maps(image).shape == (5, 5, 36)
    pytest.importorskip("cv2")
    sift = sift_maps(image)
    assert sift.shape == (24, 24, 128)
    assert_allclose(np.linalg.norm(sift, axis=2), 1, atol=1e-3)
    assert np.abs(sift_maps(image / np.float32(100)) - sift).mean() < 0.01  # of other units too


# -- the page ---------------------------------------------------------------------------------------


def test_results_page(tmp_path):
    row = {"dataset": "ar-face", "method": "MidFea", "metric": "accuracy", "mean": 97.71, "std": 0.3}
    (tmp_path / "ar-face.json").write_text(json.dumps([{**row, "trials": 3, "paper": 93.3}]))
    page = results_page(tmp_path)
    assert "| MidFea | accuracy | 97.71 | 0.30 | 3 | 93.3 | +4.41, above |" in page
    assert "Beside the paper (accuracy): MidFea +4.41, above." in page
    assert "midfea reproduce ar-face --data DATA --json results/ar-face.json" in page
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="no JSON files"):
        results_page(tmp_path / "empty")
    with pytest.raises(ValueError, match="no such folder"):
        results_page(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("mean", "std", "trials", "metric", "expected"),
    [
        (94.3, 0.5, 3, "accuracy", "+1.00, above"),
        (94.3, 0.0, 1, "accuracy", "+1.00, one trial"),
        (92.0, 0.5, 3, "accuracy", "-1.30, below"),
        (93.0, 0.5, 3, "accuracy", "-0.30, within one deviation"),
        (95.0, 10.0, 100, "MAE (years)", "+1.70, above (worse)"),
        (92.8, 10.0, 100, "MAE (years)", "-0.50, within one deviation"),
        (91.0, 10.0, 100, "MAE (years)", "-2.30, below (better)"),
    ],
)
def test_verdicts_follow_from_the_numbers(mean, std, trials, metric, expected):
    row = {"mean": mean, "std": std, "trials": trials, "metric": metric, "paper": 93.3}
    assert verdict(row) == expected
    assert verdict(row | {"paper": None}) == ""


def test_findings_about_the_claims_follow_from_the_numbers(tmp_path):
    row = {"metric": "m", "std": 0.1, "trials": 1, "paper": None}
    rows = [
        row | {"dataset": "light", "method": "HOG", "mean": 0.95},
        row | {"dataset": "light", "method": "MidFea", "mean": 0.8},
        row | {"dataset": "focus", "method": "HOG", "mean": 1.05},
        row | {"dataset": "ar", "method": "projection none", "mean": 98.0},
        row | {"dataset": "ar", "method": "projection random, 300", "mean": 60.0},
        row | {"dataset": "ar", "method": "projection random, 500", "mean": 90.0},
    ]
    (tmp_path / "claims.json").write_text(json.dumps(rows))
    page = results_page(tmp_path)
    assert "light, below 1 by more than a deviation: MidFea." in page
    assert "focus, above 1 by more than a deviation: none." in page
    assert "ar: random projection loses 8.0 to 38.0 points." in page


def test_rows_of_other_methods_are_kept(tmp_path):
    def row(method, mean=1.0):
        return {"dataset": "ar-face", "method": method, "mean": mean}

    old = [row(method) for method in ("SRC", "MidFea", "MidFea-NS", "MidFea-NS less MidFea")]
    (tmp_path / "rows.json").write_text(json.dumps(old))
    new = with_kept([row("MidFea", 2.0)], tmp_path / "rows.json")
    assert [(each["method"], each["mean"]) for each in new] == [
        ("SRC", 1.0),
        ("MidFea-NS", 1.0),
        ("MidFea", 2.0),
    ]
    assert with_kept(old, None) == with_kept(old, tmp_path / "none.json") == old


def test_who_is_first_follows_from_the_numbers(tmp_path):
    row = {"dataset": "ar-face", "metric": "accuracy", "std": 0.1, "trials": 3}
    rows = [
        row | {"method": "SRC", "mean": 91.0, "paper": 90.3},
        row | {"method": "MidFea", "mean": 90.5, "paper": 93.3},
        row | {"method": "MidFea, ours", "mean": 99.0, "paper": None},
    ]
    (tmp_path / "ar-face.json").write_text(json.dumps(rows))
    page = results_page(tmp_path)
    assert "here: SRC 91.0 > MidFea 90.5. In the paper: MidFea 93.3 > SRC 90.3." in page
    assert "Best of all rows: MidFea, ours (99.0)." in page


def test_the_page_in_the_repository_is_current():
    assert (ROOT / "RESULTS.md").read_text() == results_page(ROOT / "results"), (
        "midfea reproduce results"
    )


def test_every_stored_row_says_where_it_comes_from():
    stored = [*(ROOT / "results").glob("*.json"), *(ROOT / "benchmarks").glob("*.json")]
    rows = [row for path in stored for row in json.loads(path.read_text())]
    assert len(rows) > 300
    for row in rows:
        assert {"commit", "date", "machine", "versions", "seeds"} <= row["about"].keys()


# -- provenance -------------------------------------------------------------------------------------


def test_rows_are_written_with_their_origin(tmp_path):
    write_rows([{"mean": 1.0}, {"mean": 2.0}], tmp_path / "rows.json", range(3))
    first, second = json.loads((tmp_path / "rows.json").read_text())
    assert (first["mean"], second["mean"]) == (1.0, 2.0)
    assert first["about"]["seeds"] == [0, 1, 2]
    assert first["about"]["versions"].keys() >= {"python", "midfea", "numpy"}


def test_commit_of_a_clean_tree_a_changed_one_and_none(tmp_path, monkeypatch):
    source = tmp_path / "src" / "provenance.py"
    source.parent.mkdir()
    source.write_text("a = 1\n")
    monkeypatch.setattr("midfea.provenance.__file__", str(source))
    assert about([])["commit"].startswith("midfea ")  # the version: no repository
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "a"]):
        subprocess.run([*git, *arguments], check=True)
    clean = about([])["commit"]
    assert len(clean) == 40
    source.write_text("a = 2\n")
    assert about([])["commit"] == f"{clean}+changes"
    monkeypatch.setattr("midfea.provenance.__file__", str(tmp_path / "installed.py"))
    assert about([])["commit"].startswith("midfea ")  # in a repository, but not of it
