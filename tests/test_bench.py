"""The benchmarks run, say what they measured, and notice a search that is wrong."""

import json
import sys

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from command import fails_in_one_line, midfea
from midfea import MidFea
from midfea.bench import growth, kmeans, paper_table, peers, search, stages
from midfea.bench.common import Inputs, square_images
from midfea.bench.growth import plot_growth
from midfea.bench.peers import check_kymatio, scattering
from midfea.cli import app
from midfea.extras import install_line


@pytest.fixture(scope="module")
def images():
    return square_images(None, 64, 4)


def test_photos_become_squares_of_one_kind(tmp_path):
    for i, (shape, kind) in enumerate((((40, 90), np.uint8), ((80, 50), np.uint16), ((64, 64), bool))):
        Image.fromarray(np.eye(*shape).astype(kind) * kind(1)).save(tmp_path / f"{i}.png")
    squares = square_images(tmp_path, 48, 10)
    assert [(square.shape, square.dtype) for square in squares] == [((48, 48), np.uint8)] * 3
    assert squares[1].max() > 30  # 16 bits of which few are used
    assert len(square_images(tmp_path, 48, 2)) == 2
    assert len(square_images(None, 48, 7)) == 7
    with pytest.raises(ValueError, match="two images or more are needed, found 1"):
        square_images(tmp_path / "0.png", 48, 2)


@pytest.fixture(scope="module")
def model(images):
    return MidFea(n_words=50, n_samples=2000, max_side=None, random_state=0).fit(images)


def test_stages():
    rows = stages.measure(Inputs(None, 64, 4), n_words=50, n_samples=2000)[0]
    assert all(row["threads"] == 1 and row["ms_per_image"] > 0 for row in rows)
    times = {row["stage"]: row["ms_per_image"] for row in rows}
    paper = {row["stage"]: row["paper"] for row in rows}
    *parts, feature, classifier, total = times.values()
    assert max(parts) <= feature <= total
    assert classifier <= total
    *parts, feature, classifier, total = paper.values()
    assert (sum(parts), sum(parts) + classifier) == (feature, total) == (608, 868)


def bench(tmp_path, *arguments):
    """The command in this process: its output, its exit code, its rows."""
    file = tmp_path / "rows.json"
    common = ("bench", "--size", 64, "--images", 2, "--json", file)
    result = CliRunner().invoke(app, [str(argument) for argument in (*common, *arguments)])
    return result, json.loads(file.read_text())


def test_paper_table(monkeypatch):
    monkeypatch.setattr(paper_table, "N_TRAINING", 20)
    rows, remarks, missing = paper_table.measure(Inputs(None, 64, 4), n_words=50, n_samples=2000)
    by_step = {row["step"]: row for row in rows}
    assert list(by_step)[-1] == "total" and missing == []
    sift, total = by_step["dense SIFT"], by_step["total"]
    assert sift["midfea"] is None and sift["KSPM, paper"] == 19_420
    # The paper's totals, in milliseconds.
    assert [total[f"{name}, paper"] for name in ("midfea", "KSPM", "ScSPM", "LLC")] == [
        868,
        20_872,
        50_012,
        67_352,
    ]
    for name in ("midfea", "KSPM", "ScSPM", "LLC"):
        steps = [row[name] for row in rows[:-1] if row[name] is not None]
        assert min(steps) > 0 and sum(steps) == pytest.approx(total[name], abs=0.01)
    assert "Times midfea's total (below 1: faster): KSPM" in remarks[0]


def test_peers(model, tmp_path, monkeypatch):
    pytest.importorskip("skimage")
    monkeypatch.setattr(MidFea, "fit", lambda self, images: model)  # not the paper's 1000 words
    result, rows = bench(tmp_path, "--only", "peers")
    assert result.exit_code == 0
    assert "times the throughput of one" in result.stdout
    assert "--kymatio" in result.stderr
    names = [row["method"] for row in rows if row["threads"] == 1]
    assert names[0] == "midfea feature"
    assert {name.split()[0].strip(",") for name in names} == {"midfea", "HOG", "SIFT"}
    for row in rows:
        assert row["ratio"] == pytest.approx(row["ms_per_image"] / rows[0]["ms_per_image"], rel=0.02)
    many = [row for row in rows if "speedup" in row]
    assert many[0]["speedup"] == 1


def test_peers_that_are_missing_are_named(model, monkeypatch):
    for module in ("cv2", "skimage"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(MidFea, "fit", lambda self, images: model)  # not the paper's 1000 words
    rows, _, missing = peers.measure(Inputs(None, 64, 2), rounds=1)
    assert {row["method"].split(",")[0] for row in rows} == {"midfea feature"}
    reason = f"scikit-image and OpenCV are not installed: {install_line('bench')}"
    assert missing[:2] == [f"HOG is not measured: {reason}", f"SIFT is not measured: {reason}"]


def test_an_interpreter_without_kymatio_is_refused_in_one_line(images):
    fails_in_one_line(midfea("bench", "--kymatio", sys.executable), "No module named 'kymatio'", "pip")
    with pytest.raises(ValueError, match="/no/python: No such file"):
        check_kymatio("/no/python")
    with (
        pytest.raises(ValueError, match="No module named 'kymatio'"),
        scattering(sys.executable, images),
    ):
        pass


def test_search_finds_what_brute_force_finds():
    rows, _, missing = search.measure(Inputs(None, 64, 4), n_words=(100, 5000), neighbours=(1, 3))
    assert "5000 words need more descriptors than 3844" in missing[-1]
    ours = [row for row in rows if row["method"] == search.OURS]
    assert [(row["words"], row["k"], row["ratio"]) for row in ours] == [(100, 1, 1), (100, 3, 1)]
    for row in rows:
        assert row["compared"] == 3844
        assert row["beyond_ties"] == 0
        assert row["ms_per_image"] > 0


def test_ties_are_not_errors():
    words = np.array([[0, 0], [1, 0], [1, 1e-7]], dtype=np.float32)
    points = np.array([[1, 0], [0, 0], [0.5, 0]], dtype=np.float32)
    found = np.array([[2, 1], [0, 2], [1, 2]])
    assert search.differences(points, words, found, np.array([[1, 2], [0, 1], [0, 1]])) == (3, 0)
    assert search.differences(points, words, found, np.array([[0, 1], [0, 2], [0, 1]])) == (2, 1)


def test_a_wrong_search_is_not_passed_over(tmp_path, monkeypatch):
    class Wrong(search.WordIndex):
        def nearest(self, points, k=1):
            found = super().nearest(points, k)
            found[7] = found[7, ::-1] if k > 1 else (found[7] + 1) % len(self.words)
            return found

    monkeypatch.setattr(search, "WordIndex", Wrong)
    result, rows = bench(tmp_path, "--only", "search")
    assert result.exit_code == 1
    assert "beyond ties" in result.stdout
    assert "WRONG ANSWERS: 4 descriptors" in result.stderr
    assert "4096 words need more descriptors than 1922" in result.stderr
    found = [(row["method"], row["beyond_ties"]) for row in rows]
    assert [wrong for name, wrong in found if name == search.OURS] == [2, 2]
    assert [wrong for name, wrong in found if name != search.OURS] == [0] * (len(found) - 2)


def test_kmeans_is_as_good_as_scikit_learns():
    ours, theirs = kmeans.measure(Inputs(None, 64, 4), n_clusters=20, max_iter=5)[0]
    assert ours["points"] == theirs["points"] == 3844
    assert ours["seconds"] > 0 and theirs["seconds"] > 0
    assert ours["inertia"] == pytest.approx(theirs["inertia"], rel=0.05)


def test_growth_in_every_direction(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(growth, "in_own_process", growth.measure_here)  # which takes a second each
    monkeypatch.setattr(growth, "N_SAMPLES", 1000)
    monkeypatch.setattr(growth, "SIDE", 48)
    sweeps = {"pixels": (32**2, 64**2), "words": (10, 20), "filters": (2, 3), "images": (1, 3)}
    monkeypatch.setattr(growth, "SWEEPS", sweeps)
    picture = tmp_path / "growth.png"
    result, rows = bench(tmp_path, "--only", "growth", "--plot", picture)
    assert result.exit_code == 0
    assert "Time grows as pixels^" in result.stdout
    points, exponents = rows[:-4], rows[-4:]
    assert [(row["growth"], row["value"]) for row in points] == [
        (what, value) for what, values in sweeps.items() for value in values
    ]
    assert [row["growth"] for row in exponents] == list(sweeps)
    assert all(np.isfinite(row["exponent"]) for row in exponents)
    plot_growth([{"method": "HOG", "ms_per_image": 5.0}, *rows], picture)  # rows of other sections
    with Image.open(picture) as drawn:
        assert drawn.size[0] > 1000


def test_exponents():
    rows = [{"growth": "words", "value": n, "ms_per_image": 3 * n**0.5} for n in (10, 100, 1000)]
    rows += [{"growth": "images", "value": n, "ms_per_image": 2.0} for n in (10, 100, 1000)]
    assert growth.exponent("words", rows) == 0.5
    assert growth.exponent("images", rows) == 1  # of the time for all


@pytest.mark.skipif(growth.peak_mb() is None, reason="no /proc here")
def test_memory_is_that_of_a_fresh_process(model, images):
    waste = np.ones(300_000_000, dtype=np.uint8)
    row = growth.in_own_process(model, images)
    assert 20 < row["start_mb"] <= row["peak_mb"] < growth.peak_mb() - waste.nbytes / 2e6


def test_the_command(tmp_path):
    rows = tmp_path / "rows.json"
    sections = ("--only", "stages", "--only", "kmeans")
    result = midfea("bench", "--size", 64, "--images", 3, *sections, "--json", rows)
    assert result.returncode == 0, result.stderr
    found = json.loads(rows.read_text())
    assert {"vector quantization", "feature", "total"} <= {row.get("stage") for row in found}
    assert {"k-means (midfea)", "k-means (scikit-learn)"} <= {row.get("method") for row in found}
    assert "3 images of 64x64 pixels" in result.stdout
    assert "vector quantization" in result.stdout
    assert "2,883" in result.stdout  # descriptors
    assert all(
        {"commit", "date", "machine", "versions", "seeds"} == row["about"].keys() for row in found
    )
    fails_in_one_line(midfea("bench", "--plot", tmp_path / "p.png"), "--only growth")
    fails_in_one_line(midfea("bench", tmp_path), "found 0")
