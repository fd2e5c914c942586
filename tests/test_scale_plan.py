"""Plan: hand-computed examples, and rates that are measured from a user's own images."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from command import fails_in_one_line, midfea
from many import MODEL, write_photos
from midfea.cli.plan import duration, size
from midfea.scale.manifest import Manifest, write_manifest
from midfea.scale.plan import Machines, Work, make_plan
from midfea.scale.rates import STORED, Rates, sample, stored

# 10 ms for an image, 3 of them for a decode process; 1000 bytes to read and 4000 to write.
RATES = Rates(
    name="by hand",
    n_images=200,
    n_processes=2,
    image_bytes=1000,
    manifest_bytes=10,
    read_seconds=0.001,
    decode_seconds=0.002,
    compute_seconds=0.006,
    write_seconds=0.001,
    core_share=1,
    n_features=1000,
    n_classes=5,
    process_bytes=100_000_000,
    start_seconds=2,
    read_features_bytes_per_second=1e9,
    about={},
)
MILLION = Work(1_000_000)


def test_limited_by_cores():
    plan = make_plan(MILLION, Machines(10, cores_per_node=4), RATES)
    assert (plan.limited_by, plan.images_per_second) == ("cores", pytest.approx(1000))
    assert plan.work_seconds == pytest.approx(1000) and plan.start_seconds == 2
    assert plan.core_hours == pytest.approx(10 * 1002 / 3600) and plan.gpu_hours == 0
    assert plan.read_bytes_per_second == pytest.approx(1e6)
    assert plan.written_bytes_per_second == pytest.approx(4e6)
    assert plan.n_nodes == 3 and plan.bytes_per_second_per_node == pytest.approx(5e6 / 3)
    assert plan.memory_per_node_bytes == 400_000_000


def test_storage_does_not_depend_on_the_machines():
    for machines in (Machines(1), Machines(10, n_gpus=2, gpu_images_per_second=1e4)):
        plan = make_plan(replace(MILLION, dtype="float16"), machines, RATES)
        assert (plan.images_bytes, plan.manifest_bytes) == (1e9, 1e7)
        assert (plan.float32_bytes, plan.float16_bytes, plan.scores_bytes) == (4e9, 2e9, 2e7)
        assert plan.written_bytes == 2e9
        assert (plan.n_shards, plan.shard_bytes) == (1000, 2_000_000)


def test_limited_by_storage():
    machines = Machines(10, bytes_per_second=2.5e6)
    plan = make_plan(MILLION, machines, RATES)
    assert (plan.limited_by, plan.images_per_second) == ("storage", pytest.approx(500))
    plan = make_plan(replace(MILLION, dtype="float16"), machines, RATES)  # 3000 bytes in place of 5000
    assert plan.images_per_second == pytest.approx(2500 / 3)


def test_limited_by_the_network_of_the_nodes():
    machines = Machines(10, cores_per_node=4, node_bytes_per_second=1e6)
    plan = make_plan(MILLION, machines, RATES)
    assert (plan.limited_by, plan.images_per_second) == ("network of the nodes", pytest.approx(600))
    assert plan.bytes_per_second_per_node == pytest.approx(1e6)


def test_gpus_wait_for_the_cores_that_decode():
    gpus = Machines(3, n_gpus=2, gpu_images_per_second=10_000)
    plan = make_plan(MILLION, gpus, RATES)
    assert (plan.limited_by, plan.images_per_second) == ("cores that decode", pytest.approx(1000))
    plan = make_plan(MILLION, replace(gpus, n_cores=30), RATES)
    # 0.1 ms to compute and 1 ms to write an image, in the process of the GPU
    assert (plan.limited_by, plan.images_per_second) == ("GPUs", pytest.approx(2 / 0.0011))
    assert plan.gpu_hours == pytest.approx(2 * plan.seconds / 3600)


def test_gpus_of_unknown_rate_are_left_out():
    assert make_plan(MILLION, Machines(10, n_gpus=8), RATES) == make_plan(MILLION, Machines(10), RATES)


def test_a_core_does_whole_shards():
    plan = make_plan(Work(10_001), Machines(4), RATES)  # 11 shards: three for one core
    assert plan.n_shards == 11 and plan.work_seconds == pytest.approx(30)
    plan = make_plan(Work(600), Machines(4), RATES)
    assert (plan.n_shards, plan.shard_bytes, plan.n_busy_cores) == (1, 2_400_000, 1)
    assert plan.work_seconds == pytest.approx(6)
    assert make_plan(Work(600, shard_size=100), Machines(4), RATES).work_seconds == pytest.approx(2)


@pytest.mark.parametrize("n_gpus", [0, 4])
def test_pieces_add_up(n_gpus):
    machines = Machines(7, n_gpus, 3, 500, bytes_per_second=4e6, node_bytes_per_second=2e6)
    plan = make_plan(Work(123_456), machines, RATES)
    assert plan.seconds == plan.start_seconds + plan.work_seconds
    assert plan.images_per_second * plan.work_seconds == pytest.approx(123_456)
    assert plan.images_per_second == min(limit.images_per_second for limit in plan.limits)
    moved = plan.read_bytes_per_second + plan.written_bytes_per_second
    assert moved == pytest.approx(plan.n_nodes * plan.bytes_per_second_per_node)
    assert moved * plan.work_seconds == pytest.approx(plan.images_bytes + plan.written_bytes)


def test_training_takes_the_time_of_sixty_readings():
    assert make_plan(MILLION, Machines(1), RATES).training_seconds == pytest.approx(60 * 4)
    slower = Machines(1, training_bytes_per_second=4e8)
    assert make_plan(MILLION, slower, RATES).training_seconds == pytest.approx(60 * 10)
    network = replace(slower, node_bytes_per_second=1e8)
    assert make_plan(MILLION, network, RATES).training_seconds == pytest.approx(60 * 40)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Work(-5), "images: 1 or more are needed, got -5"),
        (lambda: Work(5, shard_size=0), "images of a shard: 1 or more are needed, got 0"),
        (lambda: Machines(0), "cores: 1 or more are needed, got 0; GPUs need them to decode"),
        (lambda: Machines(1, n_gpus=-1), "GPUs: 0 or more, got -1"),
        (lambda: Machines(1, cores_per_node=0), "cores per node: 1 or more are needed, got 0"),
        (lambda: Machines(1, bytes_per_second=0), "bandwidth: more than 0 is needed, got 0"),
        (
            lambda: Machines(1, gpu_images_per_second=float("nan")),
            "rate of a GPU: more than 0 is needed",
        ),
    ],
)
def test_impossible_numbers_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_sample_is_spread_over_the_manifest(tmp_path):
    (tmp_path / "list.txt").write_text("".join(f"{i}.jpg\n" for i in range(1000)))
    write_manifest([str(tmp_path / "list.txt")], tmp_path / "m.parquet")
    ids = [row.id for row in sample(Manifest(tmp_path / "m.parquet"))]
    assert len(ids) == len(set(ids)) == 200
    assert ids[:21] == [*range(20), 108] and ids[-1] == 999


def test_stored_rates_say_where_they_come_from_and_add_up():
    rows = {row["name"]: row for row in json.loads(STORED.read_text())}
    assert list(stored()) == list(rows)
    for name, rates in stored().items():
        assert set(rates.about) == {"commit", "date", "machine", "versions", "seeds"}
        assert rates.core_share > 0.95  # the machine did nothing else
        assert "+changes" not in rates.about["commit"]
        assert 1 / rates.image_seconds == pytest.approx(rows[name]["extract_images_per_second"], rel=0.2)


def test_the_docs_show_what_the_command_prints():
    page = (Path(__file__).parent.parent / "docs" / "scale.md").read_text()
    line = "midfea plan --images 1e8 --cores 512 --gpus 8 --bandwidth 3000"
    shown = page.partition(f"    {line}\n\n")[2]
    result = midfea(*line.split()[1:])
    assert result.returncode == 0, result.stderr
    printed = [row.split() for row in result.stdout.splitlines() if row.strip()]
    assert printed == [row.split() for row in shown.splitlines() if row.strip()][: len(printed)]
    assert "not measured: give --gpu-rate; the plan is for the cores alone" in result.stdout


def test_only_what_has_a_price_costs_something():
    line = ("plan", "--images", 1e6, "--cores", 36, "--core-price", 0.5)
    found = json.loads(midfea(*line, "--json").stdout)
    assert found["cost"] == {"cores": pytest.approx(36 * found["plan"]["seconds"] / 3600 * 0.5)}
    assert "price of the cores" in midfea(*line).stdout


def test_the_command_measures_a_model_and_its_images(tmp_path):
    write_photos(tmp_path / "photos", 40, bad=(3, 9, 16))
    line = ("--cores", 4, "--model", MODEL, "--sample", tmp_path / "photos", "--json")
    result = midfea("plan", "--images", 1000, *line)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    rates = Rates(**found["rates"])
    files = sorted((tmp_path / "photos").rglob("*.png"))
    sizes = [path.stat().st_size for path in files if int(path.stem) not in (3, 9, 16)]
    assert rates.n_images == len(sizes) == 37
    assert rates.image_bytes == pytest.approx(sum(sizes) / 37)
    assert rates.n_features == 630
    assert min(rates.read_seconds, rates.decode_seconds, rates.compute_seconds, rates.write_seconds) > 0
    plan = make_plan(Work(1000), Machines(4), rates)
    assert found["plan"]["seconds"] == pytest.approx(plan.seconds)
    assert found["cost"] == {}


def test_a_sample_without_any_image_is_refused(tmp_path):
    write_photos(tmp_path / "photos", 2, bad=(0, 1))
    line = ("--model", MODEL, "--sample", tmp_path / "photos")
    fails_in_one_line(
        midfea("plan", "--images", 10, *line), "none of 2 images of the sample can be read"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1.5", "1.5 is no whole number"),
        ("many", "many is no number such as"),
        ("1e400", "more than 1e+15"),
    ],
)
def test_images_are_a_whole_number(text, words):
    result = midfea("plan", "--images", text)
    assert result.returncode == 2 and words in result.stderr


def test_options_that_do_not_fit_are_named():
    fails_in_one_line(midfea("plan", "--images", -5), "images: 1 or more are needed, got -5")
    fails_in_one_line(
        midfea("plan", "--images", 5, "--model", MODEL), "--model and --sample belong together"
    )


def test_unknown_rates_are_named():
    result = midfea("plan", "--images", 5, "--rates", "x")
    fails_in_one_line(result, "no stored rates are named x", "fast-150")


def test_without_stored_rates_the_way_out_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="give --model and --sample"):
        stored(tmp_path / "rates.json")


def test_units():
    assert [size(n) for n in (999, 1234, 999_600, 4.2e12, 5e18)] == [
        "999 B",
        "1.23 kB",
        "1 MB",
        "4.2 TB",
        "5,000 PB",
    ]
    assert [duration(s) for s in (1.54, 119, 120, 7200, 2 * 86400)] == [
        "1.5 s",
        "119.0 s",
        "2.0 min",
        "2.0 h",
        "2.0 days",
    ]
