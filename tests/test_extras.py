"""Extras: what is missing is named before it is needed, with a line that installs it."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from PIL import Image

from command import fails_in_one_line, midfea
from midfea import extras
from midfea.datasets import load_surfaces
from midfea.estimators.presets import NO_NETWORK
from midfea.extras import EXTRAS, install_line, missing, why_not
from serving import Server
from test_docs import DISTRIBUTIONS

ROOT = Path(__file__).parent.parent
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    data = load_surfaces(n_per_class=5, size=32, random_state=0)
    for i, (image, kind) in enumerate(zip(data.images, data.target, strict=True)):
        if kind < 2:
            place = folder / data.target_names[kind]
            place.mkdir(exist_ok=True)
            Image.fromarray(image).save(place / f"{i}.png")
    return folder


def test_extras_are_those_of_the_project():
    for extra, modules in EXTRAS.items():
        names = {re.split(r"[\[<>=;]", line)[0] for line in DECLARED[extra]} - {"midfea"}
        assert {DISTRIBUTIONS.get(module, module) for module in modules} == names
    for_everyone = [extra for extra in EXTRAS if extra != "ray"]
    assert DECLARED["all"] == [f"midfea[{','.join(for_everyone)}]"]


def test_the_line_for_a_clone_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setattr(extras, "CLONE", tmp_path)
    (tmp_path / "pyproject.toml").touch()
    assert install_line("web").endswith(f' install -e "{tmp_path}[web]"')
    monkeypatch.chdir(tmp_path)
    assert install_line("web").endswith(' install -e ".[web]"')


def test_the_line_for_an_installed_package_names_its_packages(tmp_path):
    """A copy of the module in a folder of packages, with the metadata of a wheel."""
    (tmp_path / "midfea").mkdir()
    (tmp_path / "midfea" / "__init__.py").touch()
    shutil.copy(extras.__file__, tmp_path / "midfea")
    about = tmp_path / "midfea-0.1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        "Metadata-Version: 2.4\nName: midfea\nVersion: 0.1.0\n"
        "Requires-Dist: numpy>=2.0\n"
        "Requires-Dist: fastapi>=0.115; extra == 'all'\n"
        "Requires-Dist: torch>=2.9; (sys_platform != 'darwin') and extra == 'torch'\n"
        "Requires-Dist: fastapi>=0.115; extra == 'web'\n"
        "Requires-Dist: uvicorn>=0.30; extra == 'web'\n"
    )
    code = "from midfea.extras import install_line as line; print(line('web')); print(line('torch'))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    web, torch = done.stdout.splitlines()
    assert web.endswith(' install "fastapi>=0.115" "uvicorn>=0.30"')
    assert torch.endswith(' install "torch>=2.9"')


def test_the_line_starts_the_pip_of_this_environment(monkeypatch, tmp_path):
    beside = Path(sys.executable).parent
    if not (beside / "pip").exists():
        pytest.skip("this environment has no pip of its own")
    monkeypatch.setenv("PATH", f"{beside}{os.pathsep}{os.environ['PATH']}")
    assert install_line("web").startswith("pip install ")
    (tmp_path / "pip").write_text("#!/bin/sh\n")
    (tmp_path / "pip").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert install_line("web").startswith(f'"{sys.executable}" -m pip install ')
    monkeypatch.setitem(sys.modules, "pip", None)
    assert install_line("web").startswith(f'uv pip install --python "{sys.executable}" ')


def test_a_folder_of_a_packages_name_is_no_package(monkeypatch, tmp_path):
    (tmp_path / "some_photos").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(EXTRAS, "some", {"some_photos": "photos", "numpy": "NumPy"})
    assert missing("some") == ["photos"]


def test_serve_names_all_that_is_missing_in_one_line(without, tmp_path):
    without("python_multipart", "uvicorn")
    result = midfea("serve", "--workspace", tmp_path / "w")
    line = f"the teach page needs uvicorn and python-multipart: {install_line('web')}"
    assert result.stderr == f"midfea: error: {line}\n" and result.returncode == 1
    assert not (tmp_path / "w").exists()


def test_commands_name_what_they_need(without, tmp_path, photos):
    model = ROOT / "tests/data/fast-v2.midfea"
    without("onnx", "matplotlib", "torch")
    result = midfea("export", model, "-o", tmp_path / "m.onnx")
    fails_in_one_line(result, f"an ONNX file needs onnx: {install_line('onnx')}")
    image = next(photos.rglob("*.png"))
    result = midfea("explain", model, image, "-o", tmp_path / "why.png")
    fails_in_one_line(result, f"a drawing needs matplotlib: {install_line('plot')}, or write an .html")
    result = midfea("train", photos, "-o", tmp_path / "m.midfea", "--finetune", "--preset", "fast")
    fails_in_one_line(result, f"fine-tuning needs PyTorch: {install_line('torch')}")


def test_without_torch_fast_is_the_default_and_the_result_says_so(without, photos, tmp_path):
    without("torch")
    default = midfea("train", photos, "-o", tmp_path / "m.midfea")
    assert (
        "Trained with preset fast, because PyTorch is not installed. With it the default is best: "
        f"usually more accurate, in minutes instead of seconds: {install_line('torch')}\n"
    ) in default.stdout
    chosen = midfea("train", photos, "-o", tmp_path / "m.midfea", "--preset", "fast")
    assert "PyTorch" not in chosen.stdout
    assert "best if PyTorch is installed, else fast" in midfea("train", "--help").stdout


def test_best_without_torch_says_that_it_has_no_network(without, photos, tmp_path):
    """In the command, in its report, and on the page, which opens the model."""
    pytest.importorskip("fastapi")
    without("torch", "onnx")
    model, report = tmp_path / "m.midfea", tmp_path / "r.html"
    result = midfea("train", photos, "-o", model, "--preset", "best", "--report", report)
    assert f"{NO_NETWORK}: {install_line('torch')}\n" in result.stdout
    assert "midfea: no fine-tuning, the model will be less accurate: fine-tuning needs" in result.stderr
    assert f"{NO_NETWORK}." in report.read_text()
    with Server(tmp_path / "workspace", model) as server:
        state = server.state()
        assert state["model"]["note"] == NO_NETWORK
        assert state["missing"] == {
            "torch": f"PyTorch is not installed: {install_line('torch')}",
            "onnx": f"onnx is not installed: {install_line('onnx')}",
        }
        for path in photos.rglob("*.png"):
            server.upload(path.parent.name, (path.name, path.read_bytes()))
        answer = server.client.post("/api/train", json={"finetune": True})
        assert answer.status_code == 422
        assert f"PyTorch is not installed: {install_line('torch')}" in answer.json()["error"]
        answer = server.client.get("/api/download/onnx")
        assert install_line("onnx") in answer.json()["error"]


def test_nothing_is_missing_where_all_is_installed():
    pytest.importorskip("torch")
    assert missing("torch") == [] and why_not("torch") == ""
