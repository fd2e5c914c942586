"""predict of a manifest: the answers of predict, for many images, whatever ends the run."""

import csv
import io
import os
import signal
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

import midfea
from command import fails_in_one_line
from command import midfea as command
from many import corrupt, write_tar
from midfea.engines import EngineSettings
from midfea.learning.answer_table import AnswerTable
from midfea.learning.decisions import DecisionRule
from midfea.scale.answers import Answering, predict
from midfea.scale.local import Processes
from midfea.scale.manifest import write_manifest
from small import SMALL

BAD = (2, 11)
HERE = {"executor": Processes(1), "engine": EngineSettings()}


@pytest.fixture(scope="module")
def place(tmp_path_factory, surfaces):
    """A model that knows belonging, photos (two of them corrupt, two of other things), a manifest."""
    folder = tmp_path_factory.mktemp("answers")
    midfea.MidFeaClassifier(**SMALL).fit(*surfaces).save(folder / "m.midfea")
    (folder / "p").mkdir()
    for number, image in enumerate(surfaces[0][:14]):
        Image.fromarray(image).save(folder / f"p/{number:02}.png")
    for number in (5, 13):
        Image.fromarray(np.full((64, 64), 90, np.uint8)).save(folder / f"p/{number:02}.png")
    for number in BAD:
        (folder / f"p/{number:02}.png").write_bytes(corrupt(number))
    write_manifest([str(folder / "p")], folder / "m.parquet")
    return folder


def answering(place, rule=DecisionRule(), top=1):  # noqa: B008
    model = midfea.load(place / "m.midfea")
    return Answering(place / "m.midfea", model.parts_, rule, top)


def run(place, output, **more):
    options = HERE | {"shard_size": 4} | more
    return predict(place / "m.parquet", output, answering(place), **options)


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def assert_same(rows, expected):
    """Numbers may differ by the rounding of six digits."""
    assert [list(row) for row in rows] == [list(row) for row in expected]
    for row, other in zip(rows, expected, strict=True):
        for name, cell in row.items():
            if cell and name.startswith(("probability", "belonging")):
                assert float(cell) == pytest.approx(float(other[name]), abs=2e-6)
            else:
                assert cell == other[name]


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--top", 3, "--threshold", 0.7),
        ("--unknown", 0.05, "--miss", "scale=0.2"),
        ("--jobs", 2, "--engine", "torch", "--device", "cpu"),
    ],
    ids=lambda options: options[0] if options else "plain",
)
def test_the_answers_are_those_of_predict(place, tmp_path, options):
    if "torch" in options:
        pytest.importorskip("torch")
    one_by_one = command("predict", place / "m.midfea", place / "p", "--format", "csv", *options)
    expected = rows_of(one_by_one.stdout)
    assert len(expected) == 12
    output, skipped = tmp_path / "a.csv", tmp_path / "s.csv"
    line = ("predict", place / "m.midfea", place / "m.parquet", "-o", output, "--skipped", skipped)
    result = command(*line, *options)
    assert result.returncode == one_by_one.returncode == 1
    assert_same(rows_of(output.read_text()), expected)
    assert [int(row["file"][-6:-4]) for row in rows_of(skipped.read_text())] == list(BAD)
    assert f"skipped 2 of 14 files:\nmidfea:   {place}/p/02.png: " in result.stderr
    assert result.stdout.startswith(f"Answers: {output} (12 images, ")
    assert sorted(os.listdir(tmp_path)) == ["a.csv", "s.csv"]


def test_parquet_holds_the_same(place, tmp_path):
    rule = DecisionRule(unknown=0.05)
    for name in ("a.csv", "a.parquet"):
        predict(place / "m.parquet", tmp_path / name, answering(place, rule), **HERE, shard_size=5)
    table = pq.read_table(tmp_path / "a.parquet")
    columns = ["file", "class", "probability", "most probable", "belonging"]
    assert table.column_names == columns and table.num_rows == 12
    assert table["class"].to_pylist().count("none of these") == 2
    written = [
        {name: f"{x:.6f}" if type(x) is float else x for name, x in row.items()}
        for row in table.to_pylist()
    ]
    assert written == rows_of((tmp_path / "a.csv").read_text())


def test_belonging_that_is_not_known_is_empty(surfaces, tmp_path):
    few = midfea.MidFeaClassifier(**SMALL).fit(surfaces[0][::4], surfaces[1][::4])
    assert few.belonging_ is None
    few.save(tmp_path / "few.midfea")
    Image.fromarray(surfaces[0][0]).save(tmp_path / "1.png")
    write_manifest([str(tmp_path / "1.png")], tmp_path / "m.parquet")
    for ending in ("csv", "parquet"):
        line = (
            "predict",
            tmp_path / "few.midfea",
            tmp_path / "m.parquet",
            "-o",
            tmp_path / f"a.{ending}",
        )
        assert command(*line).returncode == 0
    assert rows_of((tmp_path / "a.csv").read_text())[0]["belonging"] == ""
    assert pq.read_table(tmp_path / "a.parquet")["belonging"].to_pylist() == [None]


KILLING = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_scale_answers import run

def kill_before(event, arguments):
    if event == "os.rename":
        renamed.append(arguments)
        if len(renamed) == {nth}:
            os.kill(os.getpid(), signal.SIGKILL)

renamed = []
sys.addaudithook(kill_before)
run(Path({place!r}), Path({output!r}))
"""


@pytest.mark.parametrize("nth", [6, 15])  # in the second shard; when the answers have no name yet
def test_after_kill_9_a_run_goes_on(place, tmp_path, nth):
    run(place, tmp_path / "whole.csv")
    output = tmp_path / "a.csv"
    names = {"tests": os.path.dirname(__file__), "place": str(place), "output": str(output)}
    code = KILLING.format(**names, nth=nth)
    killed = subprocess.run([sys.executable, "-c", code], check=False)
    assert killed.returncode == -signal.SIGKILL
    n_done = {6: 1, 15: 4}[nth]
    markers = [path.stat().st_mtime_ns for path in sorted((tmp_path / "a.csv.parts/done").iterdir())]
    assert len(markers) == n_done and not output.exists()
    other = Answering(place / "m.midfea", answering(place).parts, DecisionRule(), 2)
    with pytest.raises(ValueError, match=r"begun with shard_size 4, now 7: remove it to begin anew"):
        predict(place / "m.parquet", output, other, **HERE, shard_size=7)
    kept = []

    class Watched(Processes):
        def run(self, job, shards):
            kept.extend(shards)
            return super().run(job, shards)

    run(place, output, executor=Watched(1))
    assert len(kept) == 4 - n_done
    assert output.read_text() == (tmp_path / "whole.csv").read_text()
    assert not (tmp_path / "a.csv.parts").exists()


def test_a_file_that_was_away_is_tried_again(place, tmp_path, monkeypatch):
    """It is no answer of a finished run, but a run that goes on opens it."""
    content = {f"{number}.png": (place / f"p/{number:02}.png").read_bytes() for number in range(2)}
    tar = write_tar(tmp_path / "a.tar", content)
    write_manifest([str(tar)], tmp_path / "m.parquet")
    tar.rename(tmp_path / "away.tar")
    monkeypatch.setattr("midfea.scale.answers._write", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        predict(tmp_path / "m.parquet", tmp_path / "a.csv", answering(place), **HERE)
    monkeypatch.undo()
    (tmp_path / "away.tar").rename(tar)
    answered = predict(tmp_path / "m.parquet", tmp_path / "a.csv", answering(place), **HERE)
    assert (answered.counts.rows, answered.counts.errors) == (2, 0)


def test_wrong_outputs_are_said_before_any_work(place, tmp_path):
    model, manifest, photos = place / "m.midfea", place / "m.parquet", place / "p"
    fails_in_one_line(command("predict", model, manifest), "a manifest needs --output FILE")
    named = command("predict", model, manifest, "-o", tmp_path / "a.txt")
    fails_in_one_line(named, "name a file that ends with .csv or .parquet")
    both = command("predict", model, manifest, photos, "-o", tmp_path / "a.csv")
    fails_in_one_line(both, "a manifest comes alone")
    parquet = command("predict", model, photos, "-o", tmp_path / "a.parquet")
    fails_in_one_line(parquet, "Parquet is written for a manifest")
    form = command("predict", model, manifest, "-o", tmp_path / "a.csv", "--format", "json")
    fails_in_one_line(form, "--format json is for standard output")
    (tmp_path / "b.csv.parts").mkdir()
    (tmp_path / "b.csv.parts/mine.txt").touch()
    taken = command("predict", model, manifest, "-o", tmp_path / "b.csv")
    fails_in_one_line(taken, "holds other files (mine.txt, ...): remove it to begin anew")
    assert os.listdir(tmp_path) == ["b.csv.parts"]


def test_a_csv_file_of_images_without_a_manifest(place, tmp_path):
    expected = command("predict", place / "m.midfea", place / "p", "--format", "csv")
    result = command("predict", place / "m.midfea", place / "p", "--output", tmp_path / "a.csv")
    assert result.stdout == f"Answers: {tmp_path}/a.csv (12 images)\n"
    assert (tmp_path / "a.csv").read_text() == expected.stdout


def test_a_table_ranks_and_decides():
    probabilities = np.array([[0.2, 0.5, 0.3], [0.4, 0.2, 0.4], [0.1, 0.1, 0.8]])
    rule = DecisionRule(sought=(0, 0.35), unsure_below=0.6, unknown=0.05)
    table = AnswerTable.of(probabilities, np.array([0.5, 0.5, 0.01]), ["a", "b", "c"], rule)
    assert table.labels.tolist() == ["unsure", "a", "none of these"]
    assert table.probability.tolist() == [0.5, 0.4, 0.8]
    assert table.ranked.tolist() == [[1, 2, 0], [0, 2, 1], [2, 0, 1]]
    columns = table.columns(["x", "y", "z"], top=2)
    assert list(columns) == [
        *("file", "class", "probability", "class 1", "probability 1", "class 2", "probability 2"),
        "belonging",
    ]
    assert columns["class 2"].tolist() == ["c", "c", "a"]
    assert columns["probability 2"].tolist() == [0.3, 0.4, 0.1]
