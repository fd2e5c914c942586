"""The server over real HTTP: what it does, what it refuses, and what survives kill -9."""

import asyncio
import csv
import io
import json
import os
import shutil
import socket
import threading
import time
import zipfile
from importlib.util import find_spec
from urllib.parse import quote, urlsplit

import httpx
import numpy as np
import pytest
from PIL import Image

from command import fails_in_one_line, midfea
from midfea import MidFeaClassifier, MidFeaRegressor, load
from midfea.datasets import load_surfaces
from midfea.serve.api.app import create_app
from midfea.serve.api.current import CurrentModel
from midfea.serve.store.workspace import Workspace
from midfea.serve.training.job import train
from midfea.serve.training.phases import Comparison, TrainingSettings
from midfea.serve.training.placing import Trained, known_models, stay
from serving import STRIPES, Server, id_of, noise, png, stripes, teach_and_kill
from small import FEW_STEPS, SMALL

KINDS = ("scratch", "pits", "crack")
JSON = {"content-type": "application/json"}


def drawn(n, seed=0):
    """(class, name, file) of drawn images, three kinds."""
    data = load_surfaces(n_per_class=n, size=64, random_state=seed)
    return [
        (data.target_names[kind], f"{i}.png", png(np.asarray(image, dtype=np.uint8)))
        for i, (image, kind) in enumerate(zip(data.images, data.target, strict=True))
        if data.target_names[kind] in KINDS
    ]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One without a model; each test has classes of its own."""
    with Server(tmp_path_factory.mktemp("plain") / "work") as running:
        yield running


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    """One that was taught three classes."""
    with Server(tmp_path_factory.mktemp("taught") / "surfaces") as running:
        for kind in KINDS:
            own = [(name, file) for label, name, file in drawn(14) if label == kind]
            assert len(running.upload(kind, *own)["accepted"]) == 14
        assert running.train(preset="paper")["state"] == "done"
        yield running


def raw(server, request, *bodies):
    """Bytes as they are, for what a decent client would not send; status and error."""
    address = urlsplit(server.address)
    with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
        connection.sendall(request)
        for body in bodies:
            connection.sendall(body)
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode()


def post_form(server, path, filename, content=b"x", field="files"):
    """A form whose file name is written as it is."""
    body = (
        b'--B\r\nContent-Disposition: form-data; name="%s"; filename="%s"\r\n'
        b"Content-Type: image/png\r\n\r\n%s\r\n--B--\r\n" % (field.encode(), filename, content)
    )
    host = urlsplit(server.address).netloc
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n"
        f"Content-Type: multipart/form-data; boundary=B\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return raw(server, head.encode(), body)


def refused(answer, status, *words):
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"error"}
    for word in words:
        assert word in answer.json()["error"]


# -- teaching -------------------------------------------------------------------------------------


def test_images_are_added_listed_moved_and_removed(server):
    before = server.state()["version"]
    answer = server.upload("cats", ("1.png", noise(1)), ("2.png", noise(2)), ("notes.txt", b"text"))
    assert [image["name"] for image in answer["accepted"]] == ["1.png", "2.png"]
    assert [each["name"] for each in answer["refused"]] == ["notes.txt"]
    state = server.state()
    assert state["version"] > before
    assert {"name": "cats", "images": 2} in state["classes"]
    listed = server.get("images", **{"class": "cats", "limit": 1, "offset": 1})
    assert listed["total"] == 2 and len(listed["images"]) == 1
    id = id_of(noise(1))
    file = server.client.get(f"/api/images/{id}/file")
    assert file.content == noise(1)
    assert file.headers["content-type"] == "image/png"
    small = server.client.get(f"/api/images/{id}/thumbnail")
    assert "immutable" in small.headers["cache-control"]
    assert Image.open(io.BytesIO(small.content)).format == "WEBP"
    moved = server.client.patch(f"/api/images/{id}", json={"class": "dogs"}).json()
    assert (moved["class"], moved["width"]) == ("dogs", 48)
    refused(server.client.post("/api/images", params={"class": "../x"}, files={"files": b""}), 422, "/")
    assert server.client.delete(f"/api/images/{id}").status_code == 200
    refused(server.client.get(f"/api/images/{id}/file"), 404, "no such image")
    refused(server.client.delete("/api/classes/cats"), 409, "has 1 images")
    assert server.client.delete("/api/classes/cats", params={"with_images": True}).status_code == 200


def test_classes_with_strange_names(server):
    for name in ("<img src=x onerror=alert(1)>", "a?b&c=d#e", "100 %", "猫 2"):
        made = server.client.post("/api/classes", json={"name": name})
        assert (made.status_code, made.json()["name"]) == (201, name)
        assert made.headers["content-type"] == "application/json"  # nobody takes it for a page
        address = f"/api/classes/{quote(name, safe='')}"
        refused(server.client.post("/api/classes", json={"name": name.upper()}), 409, "already")
        other = server.client.patch(address, json={"name": f"{name}!"})
        assert other.json()["name"] == f"{name}!"
        refused(server.client.delete(address), 404, "no class")
        assert server.client.delete(f"/api/classes/{quote(name + '!', safe='')}").status_code == 200
    for name in ("", "a/b", "..", "a\0b", "x" * 101):
        refused(server.client.post("/api/classes", json={"name": name}), 422, "class name")


def test_what_others_do_to_the_folder_is_seen(server):
    folder = server.folder / "images" / "by hand"
    folder.mkdir()
    (folder / "1.png").write_bytes(noise(10))
    end = time.monotonic() + 5
    while {"name": "by hand", "images": 1} not in server.state()["classes"]:
        assert time.monotonic() < end
        time.sleep(0.1)
    shutil.rmtree(folder)


def test_nothing_to_train(server):
    refused(server.client.post("/api/train", json={"preset": "fast"}), 422, "two classes")
    refused(server.client.post("/api/train", json={"preset": "huge"}), 422, "preset")
    refused(server.client.post("/api/train", json={"neurons": -1}), 422, "neurons")
    refused(server.client.delete("/api/train"), 409, "no training")
    assert server.state()["job"] is None


def test_without_a_model_there_is_nothing_to_ask(server):
    for path in ("inspect", "download/model", "download/onnx", "download/report"):
        refused(server.client.get(f"/api/{path}"), 409, "no model yet")
    refused(server.client.post("/api/classify", files={"file": noise(1)}), 409, "no model yet")


# -- what is refused ------------------------------------------------------------------------------


def test_a_bomb_is_refused_without_being_decoded(server):
    bomb = io.BytesIO()
    Image.new("1", (20_000, 10_000)).save(bomb, "PNG")  # 200 megapixels
    before = server.memory()
    answer = server.upload("bombs", ("bomb.png", bomb.getvalue()), ("good.png", noise(20)))
    assert "60 megapixels" in answer["refused"][0]["error"]
    assert len(answer["accepted"]) == 1
    assert server.memory() < before + 50


def test_a_hundred_megabytes_are_refused(server):
    before = server.memory()
    answer = server.client.post(
        "/api/images", params={"class": "big"}, files={"files": ("big.png", bytes(100_000_000))}
    )
    refused(answer, 413, "at most 64 MB")

    def parts():  # the length is not told
        yield b'--B\r\nContent-Disposition: form-data; name="files"; filename="x.png"\r\n\r\n'
        for _ in range(100):
            yield bytes(1_000_000)
        yield b"\r\n--B--\r\n"

    kind = {"content-type": "multipart/form-data; boundary=B"}
    answer = server.client.post("/api/images?class=big", content=parts(), headers=kind)
    refused(answer, 413, "at most 64 MB")
    answer = server.upload("big", ("big.png", bytes(33_000_000)))
    assert "32 MB" in answer["refused"][0]["error"]
    big = json.dumps({"name": "x" * 200_000})
    answer = server.client.post("/api/classes", content=big, headers=JSON)
    refused(answer, 413, "100 kB")
    assert server.memory() < before + 80
    assert not any(each["name"] == "big" for each in server.state()["classes"])


@pytest.mark.parametrize(
    "name", [b"../../evil.png", b"..\\evil.png", b"a\0b.png", b".evil.png", b"a\x07b"]
)
def test_file_names_that_lead_elsewhere_are_refused(server, name):
    status, body = post_form(server, "/api/images?class=names", name, noise(30))
    told = json.loads(body)
    if status == 200:
        assert told["accepted"] == []
        assert "file name" in told["refused"][0]["error"]
    else:  # what is no form at all
        assert status in (400, 422) and told["error"]
    assert not list(server.folder.parent.rglob("*evil*"))
    assert not any(each["name"] == "names" for each in server.state()["classes"])


@pytest.mark.parametrize("name", ["..%2F..%2Fevil", "a%00b", "%2e%2e"])
def test_class_names_that_lead_elsewhere_are_refused(server, name):
    status, body = post_form(server, f"/api/images?class={name}", b"x.png", noise(31))
    assert (status, "class name" in json.loads(body)["error"]) == (422, True)
    assert not list(server.folder.parent.rglob("*evil*"))


def test_paths_out_of_the_page_are_refused(server):
    for path in ("/../app.py", "/%2e%2e/app.py", "/..%2fapp.py", "/api/images/..%2f..%2fetc/file"):
        host = urlsplit(server.address).netloc
        request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        status, body = raw(server, request.encode())
        assert status == 404 and json.loads(body)["error"]


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "", "application/json"]
)
def test_a_wrong_content_type_is_refused(server, kind):
    headers = {"content-type": kind} if kind else {}
    answer = server.client.post("/api/images?class=x", content=b'{"a": 1}', headers=headers)
    refused(answer, 415, "multipart/form-data")
    if kind != "application/json":
        for method, path in (("POST", "classes"), ("PATCH", "classes/x"), ("POST", "train")):
            answer = server.client.request(method, f"/api/{path}", content=b"{}", headers=headers)
            refused(answer, 415, "application/json")


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": "http://localhost"},
        {"origin": "https://{host}"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "method": "POST"},
    ],
)
def test_other_websites_are_refused(server, headers):
    host = urlsplit(server.address).netloc
    headers = {name: value.format(host=host) for name, value in headers.items()}
    methods = [headers.pop("method", "GET"), "POST"]
    for method in methods:
        answer = server.client.request(method, "/api/state", headers=headers, json={})
        refused(answer, 403, "another website")
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_names_that_were_made_to_point_here_are_refused(server):
    port = urlsplit(server.address).port
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "", "0.0.0.0:x",
                 f"localhost.evil.example:{port}", f"10.0.0.1:{port}", f"0.0.0.0:{port}"):  # fmt: skip
        refused(server.client.get("/api/state", headers={"host": host}), 403, "does not answer to")
    for host in (f"localhost:{port}", f"LOCALHOST:{port}", f"[::1]:{port}", f"127.0.0.1:{port}"):
        own = {"host": host, "origin": f"http://{host.lower()}", "sec-fetch-site": "same-origin"}
        assert server.client.get("/api/state", headers=own).status_code == 200


def test_every_answer_forbids_what_the_page_does_not_need(server):
    for path in ("/", "/api/state", "/nothing", "/api/docs"):
        headers = server.client.get(path).headers
        assert "default-src 'self'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers


def test_errors_are_told_alike(server):
    refused(server.client.get("/api/nothing"), 404)
    refused(server.client.put("/api/state", json={}), 405)
    refused(server.client.get("/api/images"), 422, "class")
    refused(server.client.post("/api/classes", json={"nom": "x"}), 422, "name")
    broken = server.client.post("/api/classes", content=b"{", headers=JSON)
    refused(broken, 422)
    refused(server.client.post("/api/images?class=x", files={"other": b"x"}), 422, "files")
    form = {"content-type": "multipart/form-data; boundary=B"}
    refused(server.client.post("/api/images?class=x", content=b"nonsense", headers=form), 400)


def test_the_api_describes_itself(server):
    paths = server.get("openapi.json")["paths"]
    assert {"/api/state", "/api/train", "/api/classify", "/api/inspect", "/api/open/images"} <= set(
        paths
    )
    page = server.client.get("/api/docs").text
    assert "POST /api/train" in page and "<script" not in page


def test_others_than_this_machine_need_a_token(tmp_path):
    with Server(tmp_path / "work", host="127.0.0.2") as running:
        plain, _, token = running.address.partition("?token=")
        assert len(token) > 15
        for headers in ({}, {"authorization": "Bearer wrong"}, {"cookie": "midfea=wrong"}):
            refused(running.client.get("/api/state", headers=headers), 401, "token")
        refused(running.client.get("/?token=wrong"), 401)
        refused(running.client.post(f"/api/train?token={token}", json={}), 401)
        bearer = {"authorization": f"Bearer {token}"}
        assert httpx.get(f"{plain}api/state", headers=bearer).status_code == 200
        answer = running.client.get(f"/?token={token}")
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
        assert running.client.get("/api/state").status_code == 200


# -- training and after ---------------------------------------------------------------------------


def test_a_trained_model_is_told_of(taught):
    model = taught.state()["model"]
    assert model["classes"] == sorted(KINDS)
    assert (model["images"], model["stale"], model["opened"]) == (42, False, False)
    accuracy = model["accuracy"]
    assert 0 <= accuracy["low"] < accuracy["value"] < accuracy["high"] <= 1
    assert accuracy["n"] == 42
    loaded = load(taught.folder / "model.midfea")
    assert loaded.classes_.tolist() == sorted(KINDS)
    interval = loaded.validation_.interval  # one number: the page shows that of the model file
    assert (accuracy["value"], accuracy["low"], accuracy["high"]) == pytest.approx(tuple(interval))
    assert accuracy["how"] == loaded.validation_.how


def test_an_answer_with_evidence(taught):
    label, name, file = drawn(3, seed=5)[4]
    answer = taught.client.post(
        "/api/classify", params={"explain": True}, files={"file": (name, file)}
    ).json()
    assert answer["predicted"] == label
    chances = [each["probability"] for each in answer["probabilities"]]
    assert chances == sorted(chances, reverse=True)
    assert sum(chances) == pytest.approx(1, abs=1e-4)
    assert answer["unsure"] is (chances[0] < 0.6)
    assert (answer["width"], answer["height"]) == (64, 64)
    assert answer["evidence"].startswith("data:image/png;base64,")
    local = load(taught.folder / "model.midfea").predict_proba(
        [np.asarray(Image.open(io.BytesIO(file)))]
    )
    assert max(local[0]) == pytest.approx(chances[0], abs=1e-4)
    begun = time.perf_counter()
    taught.client.post("/api/classify", params={"explain": True}, files={"file": (name, file)})
    assert time.perf_counter() - begun < 2  # 0.3 s on a machine that does nothing else


def test_why(taught):
    id = next(iter(taught.all_images()))
    found = taught.client.post("/api/explain", params={"id": id, "class": "crack"}).json()
    assert found["class"] == "crack"
    assert [each["name"] for each in found["stages"]][-1] == "nearest words"
    assert all(each["contribution"] > 0 for each in found["words_for"])
    assert all(each["contribution"] < 0 for each in found["words_against"])
    assert found["nearest"][0] == {**found["nearest"][0], "id": id, "distance": 0.0}
    assert found["neurons"] == []
    refused(taught.client.post("/api/explain", params={"id": id, "class": "x"}), 404, "knows no class")


def test_questions_that_cannot_be_answered(taught):
    ask = taught.client.post
    refused(ask("/api/classify", files={"file": b"no image"}), 422, "not a readable image")
    refused(ask("/api/classify", params={"id": "f" * 20}), 404, "no such image")
    refused(ask("/api/classify"), 422, "send an image")
    refused(
        ask("/api/classify", params={"id": "f" * 20}, files={"file": noise(1)}), 422, "send an image"
    )


def test_inspect_counts_the_labels_of_the_training(taught):
    found = taught.get("inspect")
    confusion = np.array(found["confusion"])
    assert confusion.sum(axis=1).tolist() == [14, 14, 14]
    assert np.trace(confusion) / 42 == pytest.approx(found["accuracy"]["value"])
    assert "9 filters" in found["parts"]["filters"]
    assert "Always guessing" in found["parts"]["per_class"]
    assert "90 % correct" in found["parts"]["decisions"]
    assert found["curve"]["sizes"] == sorted(found["curve"]["sizes"]) and found["curve"]["verdict"]
    cell = taught.get("inspect/cell", **{"class": "pits", "predicted": "pits"})
    assert cell["total"] == confusion[1, 1] == len(cell["images"])
    image = cell["images"][0]
    taught.client.patch(f"/api/images/{image['id']}", json={"class": "crack"})
    assert taught.state()["model"]["stale"]
    moved = taught.get("inspect")
    assert (moved["confusion"], moved["accuracy"]) == (found["confusion"], found["accuracy"])
    assert moved["per_class"] == found["per_class"]
    assert (found["changed"], moved["changed"], moved["gone"]) == (0, 1, 0)
    taught.client.patch(f"/api/images/{image['id']}", json={"class": "pits"})
    assert not taught.state()["model"]["stale"]
    assert taught.get("inspect")["changed"] == 0


def moved_to_what_it_predicts(taught):
    """Every mistake moved to the predicted class; what undoes that."""
    former = []
    for label in KINDS:
        for predicted in set(KINDS) - {label}:
            cell = taught.get("inspect/cell", **{"class": label, "predicted": predicted})
            for image in cell["images"]:
                taught.client.patch(f"/api/images/{image['id']}", json={"class": predicted})
                former.append((image["id"], label))
    return former


def test_moving_all_mistakes_to_what_was_predicted_raises_no_accuracy(taught):
    before = taught.get("inspect")
    former = moved_to_what_it_predicts(taught)
    assert former  # the model of these tests makes mistakes
    after = taught.get("inspect")
    assert after["accuracy"]["value"] == before["accuracy"]["value"] < 1
    assert (after["confusion"], after["changed"]) == (before["confusion"], len(former))
    for id, label in former:
        taught.client.patch(f"/api/images/{id}", json={"class": label})


def test_a_weak_model_lists_no_disagreements_and_says_why(taught):
    found = taught.get("inspect")
    assert found["accuracy"]["low"] < 0.8
    assert found["disagreements"]["images"] == []
    assert found["disagreements"]["reason"].startswith("The model is right for ")
    assert "Train with more images first" in found["disagreements"]["reason"]


def test_planted_errors_are_listed_and_a_checked_label_never_again(tmp_path):
    files, true = stripes()
    with Server(tmp_path / "work") as running:
        for kind in STRIPES:
            running.upload(kind, *((name, file) for label, name, file in files if label == kind))
        assert running.train(preset="paper")["state"] == "done"
        listed = running.get("inspect")["disagreements"]
        found = {image["id"]: image["predicted"] for image in listed["images"]}
        assert len(found) >= 3 and found.items() <= true.items()
        right, *others = listed["images"]
        for image in others[:2]:
            body = {"class": image["predicted"], "checked": True}
            moved = running.client.patch(f"/api/images/{image['id']}", json=body).json()
            assert (moved["class"], moved["name"]) == (image["predicted"], image["name"])
        body = {"class": right["class"], "checked": True}
        assert running.client.patch(f"/api/images/{right['id']}", json=body).status_code == 200
        after = running.get("inspect")
        assert [image["id"] for image in after["disagreements"]["images"]] == [
            image["id"] for image in others[2:]
        ]
        assert (after["changed"], after["disagreements"]["checked"]) == (2, 1)
    with Server(tmp_path / "work") as running:  # also after a restart, and another training
        assert running.train(preset="paper")["state"] == "done"
        after = running.get("inspect")
        assert right["id"] not in [image["id"] for image in after["disagreements"]["images"]]
        assert after["changed"] == 0
        body = {"class": right["class"], "checked": False}
        running.client.patch(f"/api/images/{right['id']}", json=body)
        assert right["id"] in [
            image["id"] for image in running.get("inspect")["disagreements"]["images"]
        ]


# -- one training, several models -----------------------------------------------------------------


def wait_for_phase(server, number):
    """The job once so many of its models are in their place."""
    end = time.monotonic() + 120
    while (job := server.state()["job"])["trained"] < number:
        assert job["state"] == "running" and time.monotonic() < end, job
        time.sleep(0.05)
    return job


@pytest.mark.skipif(find_spec("torch") is None, reason="needs torch: without it there is one phase")
def test_a_first_look_can_be_used_while_best_is_trained_and_stays_when_it_is_cancelled(tmp_path):
    with Server(tmp_path / "work") as running:
        for kind in KINDS:
            running.upload(kind, *((name, file) for label, name, file in drawn(14) if label == kind))
        assert running.client.post("/api/train", json={}).json()["presets"] == ["fast", "best"]
        job = wait_for_phase(running, 1)
        assert job["state"] == "running" and 0 < job["fraction"] < 0.5
        state = running.state()
        assert (state["model"]["preset"], state["model"]["compared"]) == ("fast", None)
        assert sum(map(sum, running.get("inspect")["confusion"])) == 42
        image = next(iter(running.all_images()))
        answer = running.client.post("/api/classify", params={"id": image})
        assert answer.json()["predicted"] in KINDS
        assert running.client.delete("/api/train").status_code == 200
        job = running.wait(20)
        assert (job["state"], job["presets"], job["trained"]) == ("cancelled", ["fast", "best"], 1)
        assert running.state()["model"] == state["model"]
        chains = sorted((running.folder / ".midfea" / "features").iterdir())
        assert running.client.post("/api/train", json={}).status_code == 202
        wait_for_phase(running, 1)  # the filters and words of before: quick
        assert sorted((running.folder / ".midfea" / "features").iterdir())[:1] == chains


@pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")
def test_two_phases_leave_the_better_model_and_keep_the_first_look_for_the_next_time(tmp_path):
    workspace, heard = Workspace(tmp_path / "work"), []
    for label, name, file in drawn(14):
        workspace.changes.add(label, name, io.BytesIO(file))
    train(workspace, TrainingSettings(), lambda **message: heard.append(message), FEW_STEPS)
    assert heard == [{"phase": 0}, {"trained": 0}, {"phase": 1}, {"trained": 1}]
    best, fast = known_models(workspace)
    assert (best.record.settings.preset, fast.record.settings.preset) == ("best", "fast")
    assert load(best.path).network_ is not None and load(fast.path).network_ is None
    compared = best.record.compared
    assert (compared.preset, compared.other_preset, compared.images) == ("best", "fast", 42)
    # The same again where `best` turns out clearly worse: the first look stays, and says so.
    shutil.copyfile(fast.path, best.path)
    worse = Comparison("best", 20, "fast", 40, 42, 22)
    assert worse.is_clearly_worse
    stay(workspace, Trained(fast.record, fast.id, {}, {}), worse)
    current = CurrentModel(workspace).need()
    assert (current.record.settings.preset, current.record.compared) == ("fast", worse)
    workspace.close()


def test_without_torch_there_is_one_phase_and_fine_tuning_is_refused(tmp_path, without):
    without("torch")
    with Server(tmp_path / "work") as running:
        for seed, label in ((1, "a"), (2, "b")):
            running.upload(label, ("1.png", noise(seed)))
        assert "PyTorch is not installed" in running.state()["missing"]["torch"]
        answer = running.client.post("/api/train", json={"preset": "best", "finetune": True})
        refused(answer, 422, "fine-tuning cannot be done here: PyTorch is not installed: ")
        assert running.client.post("/api/train", json={}).json()["presets"] == ["fast"]
        assert running.client.delete("/api/train").status_code == 200


def test_what_is_taken_away(taught, tmp_path):
    def download(what):
        answer = taught.client.get(f"/api/download/{what}")
        assert answer.status_code == 200, answer.text
        assert "attachment" in answer.headers["content-disposition"]
        assert "surfaces" in answer.headers["content-disposition"]
        return answer.content

    (tmp_path / "model.midfea").write_bytes(download("model"))
    assert load(tmp_path / "model.midfea").classes_.tolist() == sorted(KINDS)
    rows = list(csv.DictReader(io.StringIO(download("labels").decode())))
    assert {row["id"]: row["class"] for row in rows} == taught.all_images()
    assert b"<!doctype html>" in download("report")[:100]
    assert b"midfea" in download("onnx")
    packed = download("images")
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        assert archive.testzip() is None
        assert "crack/" in archive.namelist()
    with Server(tmp_path / "again") as other:
        opened = other.client.post("/api/open/images", files={"file": ("surfaces.zip", packed)}).json()
        assert (len(opened["accepted"]), opened["refused"]) == (42, [])
        assert other.all_images() == taught.all_images()
        model = (tmp_path / "model.midfea").read_bytes()
        answer = other.client.post("/api/open/model", files={"file": ("pets.midfea", model)}).json()
        assert answer == {"name": "pets.midfea", "classes": sorted(KINDS)}
        state = other.state()
        assert (state["model"]["name"], state["model"]["opened"]) == ("pets.midfea", True)
        assert state["model"]["accuracy"] == taught.state()["model"]["accuracy"]
        refused(other.client.get("/api/inspect"), 409, "opened from a file")
        answer = other.client.post("/api/classify", params={"id": opened["accepted"][0]["id"]})
        assert answer.status_code == 200


def test_training_again_keeps_what_is_known(taught):
    """Filters and words stay, features of known images too; the model and its results change at once."""
    before = load(taught.folder / "model.midfea")
    id_before = taught.state()["model"]["id"]
    label, name, file = drawn(1, seed=9)[0]
    taught.upload(label, (name, file))
    assert taught.state()["model"]["stale"]
    shards = sorted((taught.folder / ".midfea" / "features").glob("*/*"))
    assert taught.train(preset="paper")["state"] == "done"
    model = taught.state()["model"]
    assert model["id"] != id_before
    assert (model["images"], model["stale"]) == (43, False)
    after = load(taught.folder / "model.midfea")
    np.testing.assert_array_equal(after.codebook_, before.codebook_)
    assert not np.array_equal(after.coef_, before.coef_)
    more = sorted((taught.folder / ".midfea" / "features").glob("*/*"))
    assert len(more) == len(shards) + 1
    assert more[-1].stat().st_size < shards[0].stat().st_size / 20
    taught.client.delete(f"/api/images/{id_of(file)}")
    found = taught.get("inspect")
    assert (sum(map(sum, found["confusion"])), found["gone"]) == (43, 1)


def test_neurons(taught):
    assert taught.train(preset="paper", neurons=6)["state"] == "done"
    assert np.array(taught.get("inspect")["neurons"]["means"]).shape == (6, 3)
    id = next(iter(taught.all_images()))
    found = taught.client.post("/api/explain", params={"id": id}).json()
    assert {each["class"] for each in found["neurons"]} <= set(KINDS)


def test_cancel_leaves_the_model_as_it_was(taught):
    model = taught.state()["model"]
    assert taught.client.post("/api/train", json={"preset": "fast"}).status_code == 202
    refused(taught.client.post("/api/train", json={"preset": "fast"}), 409, "under way")
    fractions = []
    while not fractions or fractions[-1] < 0.02:
        fractions.append(taught.state()["job"]["fraction"])
        time.sleep(0.02)
    assert fractions == sorted(fractions)
    begun = time.perf_counter()
    assert taught.client.delete("/api/train").status_code == 200
    assert taught.wait(10)["state"] == "cancelled"
    assert time.perf_counter() - begun < 5
    assert taught.state()["model"] == model
    refused(taught.client.delete("/api/train"), 409)


def test_a_training_that_fails_says_why(taught):
    """Too few descriptors for the words of the preset."""
    with Server(taught.folder.parent / "few") as other:
        for seed, label in ((1, "a"), (2, "b")):
            other.upload(label, ("1.png", noise(seed, 16)))
        job = other.train(preset="fast")
        assert job["state"] == "failed"
        assert "words" in job["error"]
        assert other.state()["model"] is None


def test_models_that_are_none(server, tmp_path, surfaces):
    def opened(name, content):
        return server.client.post("/api/open/model", files={"file": (name, content)})

    refused(opened("x.midfea", b"nonsense"), 422, "not a midfea model")
    refused(opened("../x.midfea", b"nonsense"), 422, "file name")
    images, _ = surfaces
    MidFeaRegressor(**SMALL).fit(images, np.arange(len(images))).save(tmp_path / "r.midfea")
    refused(opened("r.midfea", (tmp_path / "r.midfea").read_bytes()), 422, "classifier is needed")
    assert server.state()["model"] is None


def test_a_model_by_the_command_line(tmp_path, surfaces):
    MidFeaClassifier(**SMALL).fit(*surfaces).save(tmp_path / "small.midfea")
    with Server(tmp_path / "work", tmp_path / "small.midfea") as running:
        assert running.state()["model"]["name"] == "small.midfea"
    (tmp_path / "work" / "model.midfea").write_bytes(b"damaged by hand")
    with Server(tmp_path / "work") as running:
        state = running.state()
        assert state["model"] is None and "model cannot be read" in state["model_error"]
    fails_in_one_line(
        midfea("serve", tmp_path / "none.midfea", "--workspace", tmp_path / "w"), "no such"
    )


def test_a_port_in_use_is_told_in_one_line(server, tmp_path):
    port = urlsplit(server.address).port
    fails_in_one_line(midfea("serve", "--port", port, "--workspace", tmp_path), "--port")


def zip_of(entries):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return file.getvalue()


def test_zip_files_are_checked_entry_by_entry(server):
    def opened(content):
        return server.client.post("/api/open/images", files={"file": ("x.zip", content)})

    answer = opened(
        zip_of(
            {
                "photos/zipped/1.png": noise(40),
                "photos/zipped/2.png": b"no image",
                "photos/../../evil.png": noise(41),
                "/evil.png": noise(42),
                "lonely.png": noise(43),
                "__MACOSX/zipped/._1.png": b"x",
                "photos/zipped/.DS_Store": b"x",
            }
        )
    ).json()
    assert [image["class"] for image in answer["accepted"]] == ["zipped"]
    assert len(answer["refused"]) == 4
    assert not list(server.folder.parent.rglob("evil*"))
    refused(opened(b"no zip"), 422, "not a ZIP file")
    refused(opened(zip_of({"readme/": b""})), 422, "no images")
    refused(opened(zip_of({"a/bomb.bmp": bytes(30_000_000)})), 422, "100 times")
    damaged = bytearray(zip_of({"zipped/3.png": noise(44)}))
    damaged[60:80] = bytes(20)
    assert opened(bytes(damaged)).json().get("accepted", []) == []


# -- many at once, and the end --------------------------------------------------------------------


def test_a_slow_load_of_the_model_blocks_nobody(tmp_path, surfaces):
    """Whatever waits for the model waits in a thread: the event loop goes on answering."""
    (tmp_path / "work").mkdir()
    MidFeaClassifier(**SMALL).fit(*surfaces).save(tmp_path / "work" / "model.midfea")
    workspace = Workspace(tmp_path / "work")
    workspace.changes.add("a", "1.png", io.BytesIO(noise(1)))
    app, loaded = create_app(workspace), threading.Event()
    current = app.state.services.current
    current.loader.submit(loaded.wait)  # a load that takes as long as we like

    async def ask():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            waiting = [
                asyncio.create_task(request)
                for request in (
                    client.post("/api/classify", params={"id": id_of(noise(1))}),
                    client.post("/api/explain", params={"id": id_of(noise(1))}),
                    client.get("/api/download/model"),
                    client.get("/api/inspect"),
                )
            ]
            await asyncio.sleep(0.3)
            for path in ("/", "/api/images?class=a", f"/api/images/{id_of(noise(1))}/file"):
                begun = time.perf_counter()
                assert (await client.get(path)).status_code == 200
                assert time.perf_counter() - begun < 0.5
            begun = time.perf_counter()
            state = (await client.get("/api/state")).json()
            assert time.perf_counter() - begun < 1
            assert (state["model"], state["model_loading"]) == (None, True)
            assert not any(task.done() for task in waiting)
            loaded.set()
            answers = [(await task).status_code for task in waiting]
            assert answers == [200, 200, 200, 409]
            assert (await client.get("/api/state")).json()["model"]["name"] == "model.midfea"

    try:
        asyncio.run(ask())
    finally:
        loaded.set()
        app.state.services.close()
        workspace.close()


def test_many_uploads_at_once(server):
    """A short form of benchmarks/serve.py: twenty clients, good and bad files, no label lost."""
    expected, lock, failures = {}, threading.Lock(), []

    def work(number):
        with httpx.Client(base_url=server.address, timeout=60) as client:
            for i in range(6):
                content = noise(10_000 + 100 * number + i, 150)
                bad = (b"nonsense", content[:2000], b"")[i % 3]
                files = [("files", ("good.png", content)), ("files", ("bad.png", bad))]
                answer = client.post("/api/images", params={"class": f"many {i % 3}"}, files=files)
                if answer.status_code != 200 or len(answer.json()["accepted"]) != 1:
                    failures.append(answer.text)
                with lock:
                    expected[id_of(content)] = f"many {i % 3}"

    threads = [threading.Thread(target=work, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
    found = {id: label for id, label in server.all_images().items() if label.startswith("many")}
    assert found == expected


def test_stopping_ends_the_training_too(tmp_path):
    with Server(tmp_path / "work") as running:
        for seed in range(8):
            running.upload("ab"[seed % 2], (f"{seed}.png", noise(seed, 100)))
        assert running.client.post("/api/train", json={"preset": "fast"}).status_code == 202
        time.sleep(1)
    left = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline") as file:
                left += [pid] if str(tmp_path) in file.read() else []
        except OSError:
            continue
    assert not left


def test_kill_at_random_moments_loses_nothing(tmp_path):
    """benchmarks/serve.py --only kill does it twenty times."""
    n_images, n_training = teach_and_kill(tmp_path / "work", 6)
    assert n_images > 12
    assert n_training > 0
