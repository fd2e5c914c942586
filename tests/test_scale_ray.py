"""Extract on a Ray cluster: the same rows as in one process, whatever happens to workers."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

ray = pytest.importorskip("ray")

import jsonschema  # noqa: E402  # it comes with Ray, as yaml does
import yaml  # noqa: E402

import midfea  # noqa: E402
from command import fails_in_one_line  # noqa: E402
from command import midfea as command  # noqa: E402
from many import MODEL, encoded, write_photos  # noqa: E402
from midfea.engines import EngineSettings  # noqa: E402
from midfea.extras import install_line  # noqa: E402
from midfea.progress import reporting_to  # noqa: E402
from midfea.scale.cluster.executor import RayCluster, gpu_share, usual_workers  # noqa: E402
from midfea.scale.cluster.worker import RemoteWorker  # noqa: E402
from midfea.scale.extract import extract  # noqa: E402
from midfea.scale.local import Processes  # noqa: E402
from midfea.scale.manifest import write_manifest  # noqa: E402
from midfea.scale.shards import cut  # noqa: E402
from midfea.scale.worker import Job  # noqa: E402
from test_scale_extract import BAD, N_PHOTOS, assert_equal, n_done, times  # noqa: E402

EXAMPLES = Path(__file__).parent.parent / "examples"
# Workers of the cluster die when they open an image "dies-2.png": the first two of them.
DYING = """
import os, re, signal, sys

def die(event, arguments):
    match = re.search(r"dies-(\\d+)[.]png$", str(arguments[0])) if event == "open" else None
    if match:
        with open(f"{arguments[0]}.deaths", "a") as deaths:
            deaths.write("x")
        if os.stat(f"{arguments[0]}.deaths").st_size <= int(match[1]):
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(die)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The address of a cluster of this machine with two workers; this process is connected to it."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "sitecustomize.py").write_text(DYING)
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", path)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        ray.init(
            "local",
            num_cpus=2,
            num_gpus=1,  # as far as Ray knows
            include_dashboard=False,
            log_to_driver=False,
            object_store_memory=100 * 2**20,
        )
    yield ray.get_runtime_context().gcs_address
    ray.shutdown()


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    photos = write_photos(tmp_path_factory.mktemp("photos"), N_PHOTOS, BAD)
    path = tmp_path_factory.mktemp("manifest") / "m.parquet"
    write_manifest([str(photos)], path)
    return path


@pytest.fixture(scope="module")
def in_process(manifest, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "features"
    extract(manifest, folder, MODEL, shard_size=4)
    return folder


def test_workers_share_gpus(cluster, manifest, tmp_path):
    assert [usual_workers(*given) for given in ((64, 0), (64, 2), (8, 2), (0, 0))] == [64, 32, 8, 1]
    assert [gpu_share(*given) for given in ((0, 4), (1, 1), (8, 4), (1, 3))] == [0, 1, 1, 0.3333]
    pytest.importorskip("torch")
    engine = EngineSettings("torch", "cpu")
    for name, executor in (("here", Processes(1)), ("ray", RayCluster())):
        extract(manifest, tmp_path / name, MODEL, shard_size=15, executor=executor, engine=engine)
    assert_equal(tmp_path / "ray", tmp_path / "here")


def test_the_same_rows_and_errors_as_in_one_process(cluster, manifest, in_process, tmp_path):
    steps = []
    with reporting_to(lambda *step: steps.append(step)):
        done = extract(manifest, tmp_path / "f", MODEL, shard_size=4, executor=RayCluster())
    assert (done.counts.rows, done.counts.errors) == (N_PHOTOS - len(BAD), len(BAD))
    assert_equal(tmp_path / "f", in_process)
    counted = [n for what, n, total in steps if what == "extracting" and total == N_PHOTOS]
    assert counted == list(range(N_PHOTOS + 1))


def test_a_part_that_is_done_is_kept(cluster, manifest, in_process, tmp_path):
    shutil.copytree(in_process, tmp_path / "f")
    for name in ("000002", "000007"):
        (tmp_path / f"f/done/{name}.json").unlink()
    kept = times(tmp_path / "f")
    done = extract(manifest, tmp_path / "f", MODEL, shard_size=4, executor=RayCluster(n=2))
    assert done.n_kept == len(kept) == 8
    assert kept.items() <= times(tmp_path / "f").items()
    assert_equal(tmp_path / "f", in_process)


def test_workers_that_are_killed(cluster, tmp_path):
    """One shard kills a worker once, and is done again; another kills all, and is named in the end."""
    photos = write_photos(tmp_path / "photos", 24, bad=(5,))
    once, always = photos / "cats/0001-dies-1.png", photos / "dogs/0-dies-9.png"
    for path in (once, always):
        path.write_bytes(encoded(7))
    write_manifest([str(photos)], tmp_path / "m.parquet")
    steps = []
    message = r"3 workers ended.* shard 000003 \(images 12 to 15\).* type the same command again"
    with pytest.raises(ChildProcessError, match=message), reporting_to(lambda *s: steps.append(s)):
        extract(tmp_path / "m.parquet", tmp_path / "f", MODEL, shard_size=4, executor=RayCluster())
    assert (n_deaths(once), n_deaths(always)) == (2, 3)  # the one was opened in the end
    assert n_done(tmp_path / "f") == 6 and not list(tmp_path.rglob("*.unfinished"))
    counted = [n for what, n, _ in steps if what == "extracting"]
    assert counted == list(range(len(counted))) and 22 <= counted[-1] < 26
    assert extract(tmp_path / "m.parquet", tmp_path / "f", MODEL, shard_size=4).n_kept == 6
    extract(tmp_path / "m.parquet", tmp_path / "whole", MODEL, shard_size=4)
    assert_equal(tmp_path / "f", tmp_path / "whole")


def test_workers_that_cannot_start_are_said(cluster, manifest, tmp_path):
    model = tmp_path / "dies-9.png"
    model.write_bytes(MODEL.read_bytes())
    with pytest.raises(
        ChildProcessError, match=r"workers cannot start: each node needs .* process has died"
    ):
        extract(manifest, tmp_path / "f", model, shard_size=4, executor=RayCluster())
    assert 3 <= n_deaths(model) <= 4  # of the last two, one may not have been heard of


def n_deaths(path):
    """How often workers have opened an image that they may die of."""
    return Path(f"{path}.deaths").stat().st_size


def test_what_a_worker_raises_is_raised_here(cluster, manifest, tmp_path):
    job = Job(manifest, MODEL, tmp_path / "f", "features", "float32", EngineSettings())
    with pytest.raises(FileNotFoundError, match=r"f: not there on node .* storage that all nodes share"):
        list(RayCluster().run(job, cut(8, 4)))
    with pytest.raises(ValueError, match="Ray's client cannot be used"):
        list(RayCluster("ray://127.0.0.1:1").run(job, cut(8, 4)))
    with pytest.raises(ValueError, match=r"midfea is .* and 0\.0 where the run was started: install"):
        RemoteWorker().start(replace(job, output=tmp_path), "0.0")


def test_command(cluster, manifest, in_process, tmp_path):
    line = ("extract", manifest, "-o", tmp_path / "f", "--model", MODEL, "--shard-size", 4)
    result = command(*line, "--ray", cluster, "--jobs", 1)
    assert result.returncode == 0 and result.stderr.count("\n") < 20
    assert "(35 rows, 5 errors, 10 shards, " in result.stdout
    assert_equal(tmp_path / "f", in_process)


def test_an_address_where_nobody_answers(manifest, tmp_path):
    line = ("extract", manifest, "-o", tmp_path / "f", "--model", MODEL)
    fails_in_one_line(command(*line, "--ray", "127.0.0.1:1"), "no Ray cluster at 127.0.0.1:1: ")


def test_without_ray(without, manifest, tmp_path):
    """The extra is named; without --ray it is not needed."""
    without("ray")
    line = ("extract", manifest, "-o", tmp_path / "f", "--model", MODEL, "--jobs", 1)
    fails_in_one_line(
        command(*line, "--ray", "local"), f"midfea extract --ray needs Ray: {install_line('ray')}"
    )
    assert not (tmp_path / "f").exists()
    assert command(*line).returncode == 0


RUN = """
import signal
from midfea.scale.cluster.executor import RayCluster
from midfea.scale.extract import extract
signal.signal(signal.SIGINT, signal.default_int_handler)  # tests may run in the background
extract({manifest!r}, {folder!r}, {model!r}, shard_size=4, executor=RayCluster(n=2))
"""


def test_examples_are_valid():
    schema = Path(ray.__file__).parent / "autoscaler/ray-schema.json"
    cluster = yaml.safe_load((EXAMPLES / "cluster.yaml").read_text())
    jsonschema.validate(cluster, json.loads(schema.read_text()))
    volume, job = yaml.safe_load_all((EXAMPLES / "kuberay.yaml").read_text())
    assert volume["spec"]["accessModes"] == ["ReadWriteMany"]
    spec = job["spec"]["rayClusterSpec"]
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        assert pod["volumes"][0]["persistentVolumeClaim"]["claimName"] == volume["metadata"]["name"]
        assert pod["containers"][0]["volumeMounts"][0]["name"] == pod["volumes"][0]["name"]
        assert pod["containers"][0]["image"] == f"midfea-ray:{midfea.__version__}"
    written = (EXAMPLES / "kuberay.yaml").read_text() + str(cluster["setup_commands"])
    assert set(re.findall(r"ray(?:\[default\]==|:|Version: \")(2[.\d]+\d)", written)) == {
        spec["rayVersion"]
    }


def test_ctrl_c_ends_the_local_cluster_and_leaves_nothing_unfinished(tmp_path):
    photos = write_photos(tmp_path / "photos", 40)
    long = tmp_path / "m.parquet"
    write_manifest([str(photos)] * 20, long)
    names = {"manifest": str(long), "folder": str(tmp_path / "f"), "model": str(MODEL)}
    (tmp_path / "run.py").write_text(RUN.format(**names))
    process = subprocess.Popen(
        [sys.executable, tmp_path / "run.py"], stderr=subprocess.DEVNULL, start_new_session=True
    )
    while process.poll() is None and n_done(tmp_path / "f") < 4:
        time.sleep(0.001)
    workers = members(process.pid)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    assert process.wait(30) == -signal.SIGINT
    assert 4 <= n_done(tmp_path / "f") < 200
    assert not list(tmp_path.rglob("*.unfinished"))
    deadline = time.monotonic() + 20
    while workers & members(process.pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert workers


def members(session):
    """The processes of a session that run."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, of = path.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(of) == session and state != "Z":
            found.add(int(path.parent.name))
    return found
