"""The server among files and requests that nobody vouches for."""

import asyncio
import io
import json
import os
import re
import shutil
import socket
import threading
import time
import zipfile
from contextlib import suppress
from datetime import datetime
from itertools import chain, repeat
from urllib.parse import urljoin, urlsplit

import httpx
import numpy as np
import pytest
from filelock import FileLock
from PIL import Image
from safetensors import safe_open
from safetensors.numpy import load_file, save, save_file

from midfea import MidFeaClassifier
from midfea.checksum import EMPTY, seal
from midfea.pictures.likeness import N_VALUES
from midfea.serve.api.failures import Unfailing
from midfea.serve.store.files import file_id
from midfea.serve.store.workspace import Workspace
from midfea.serve.training.features import KeptFeatures
from midfea.serve.training.phases import TrainingSettings
from midfea.serve.training.record import TrainingRecord
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


def refused(answer, status, *words):
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"error"}
    for word in words:
        assert word in answer.json()["error"]


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
    for name in (str(outside), "../../../outside", "..", "0123456789abcdef\n"):
        TrainingRecord(**{**vars(record), "chain": name}).write(folder / ".midfea" / "results", id)
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


@pytest.mark.parametrize(
    "place", ["images", ".midfea", ".midfea/features", ".midfea/lock", "notes.json"]
)
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
    prints = np.zeros((3, N_VALUES), dtype=np.float32)
    KeptFeatures(tmp_path, "chain").add(ids, ids, prints, features)
    packed = np.zeros((3, 10), dtype=np.uint8)
    whole = {"ids": packed, "pixels": packed, "prints": prints, "features": features}
    for i, wrong in enumerate(
        (
            {"pixels": packed[:2]},
            {"features": features[:2]},
            {"features": features.astype(np.float64)},
            {"ids": packed.astype(np.float32)},
            {"prints": prints[:, 1:]},
            {"prints": prints.astype(np.float64)},
        )
    ):
        save_file(whole | wrong, tmp_path / "chain" / f"bad{i}.safetensors")
    del whole["prints"]  # as earlier versions wrote them
    save_file(whole, tmp_path / "chain" / "old.safetensors")
    os.mkfifo(tmp_path / "chain" / "pipe.safetensors")
    kept = KeptFeatures(tmp_path, "chain")
    assert list(kept.places) == ids
    assert kept.nearest(np.zeros(5), ids, 2) == [], "of another model"
    kept.add([id_of(noise(9))], [id_of(noise(9))], prints[:1], features[:1])
    assert len(KeptFeatures(tmp_path, "chain").places) == 4


# -- models made by others ------------------------------------------------------------------------


def changed(model, arrays=None, **settings):
    """The bytes of a model file with other arrays and settings, sealed anew."""
    content = load_file(model)
    with safe_open(model, framework="numpy") as file:
        description = json.loads(file.metadata()["midfea"])
    for part in ("params", "settings"):
        description[part] |= {k: v for k, v in settings.items() if k in description[part]}
    description |= {k: v for k, v in settings.items() if k in description} | {"checksum": EMPTY}
    return seal(save(content | (arrays or {}), {"midfea": json.dumps(description)}))


def slow(model):
    """A model that keeps every rule, and takes hours for an image."""
    filters = np.zeros((4, 151, 151), dtype=np.float32)
    filters[:, 0, 0], filters[:, 0, 1] = 0.5, -0.5
    return changed(model, {"filters": filters}, filter_size=151, scales=[4.0] * 16, max_side=None)


def opened(server, content):
    return server.client.post("/api/open/model", files={"file": ("x.midfea", content)})


def test_a_model_that_never_answers_replaces_no_other(tmp_path, model):
    with Server(tmp_path / "work", trial_seconds=8) as running:
        assert opened(running, model.read_bytes()).status_code == 200
        before = running.state()["model"]
        refused(opened(running, slow(model)), 422, "too slow", "more than 8 s")
        assert running.state()["model"] == before
        assert (tmp_path / "work" / "model.midfea").read_bytes() == model.read_bytes()
        answer = running.client.post("/api/classify", files={"file": ("1.png", noise(1, 64))})
        assert answer.status_code == 200


def test_a_model_put_there_by_hand_is_tried_first(tmp_path, model):
    (tmp_path / "model.midfea").write_bytes(slow(model))
    with Server(tmp_path, trial_seconds=4) as running:
        state = running.state()
        assert state["model"] is None and "too slow" in state["model_error"]
        assert running.upload("cats", ("1.png", noise(1)))["accepted"]


@pytest.mark.parametrize("name", ["\ud800", "b\0"])
def test_a_model_with_strange_classes_does_not_break_the_state(tmp_path, model, name):
    (tmp_path / "model.midfea").write_bytes(changed(model, classes=["a", "aa", name]))
    with Server(tmp_path) as running:
        state = running.state()
        assert state["model"] or state["model_error"]


def test_a_model_that_is_a_pipe_is_none(tmp_path):
    os.mkfifo(tmp_path / "model.midfea")
    with Server(tmp_path) as running:
        assert running.state()["model"] is None


def test_a_record_with_too_few_images_is_of_another_model(tmp_path, model):
    id = with_model(tmp_path, model)
    TrainingRecord("x", datetime.now(), ids=("a" * 20,)).write(tmp_path / ".midfea" / "results", id)
    with Server(tmp_path) as running:
        assert running.state()["model"]["opened"] is True
        refused(running.client.get("/api/inspect"), 409, "opened from a file")


# -- archives made by others ----------------------------------------------------------------------


def zip_of(entries, packing):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", packing) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return file.getvalue()


@pytest.mark.parametrize("packing", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("at", [0, 4, 9, 60])
def test_a_damaged_entry_of_a_zip_is_refused_alone(server, packing, at):
    seed = 1000 * packing + at
    names = [f"zip {packing} {at}/{i}.png" for i in range(3)]
    content = {name: noise(seed + i) for i, name in enumerate(names)}
    packed = bytearray(zip_of(content, packing))
    begin = packed.index(names[1].encode()) + len(names[1]) + at
    packed[begin : begin + 40] = bytes(range(200, 240))
    answer = server.client.post("/api/open/images", files={"file": ("x.zip", bytes(packed))})
    assert answer.status_code == 200, answer.text
    assert [each["name"] for each in answer.json()["accepted"]] == ["0.png", "2.png"]
    assert [each["name"] for each in answer.json()["refused"]] == [names[1]]
    assert "damaged" in answer.json()["refused"][0]["error"]


def test_a_zip_damaged_anywhere_is_answered(server):
    whole = zip_of({"a/1.png": noise(5000), "a/2.png": noise(5001)}, zipfile.ZIP_LZMA)
    random = np.random.RandomState(0)
    for _ in range(60):
        packed = bytearray(whole)
        start = len(whole) - 200 if random.rand() < 0.7 else 0  # the list of entries is at the end
        for place in random.randint(start, len(whole), 4):
            packed[place] = random.randint(256)
        answer = server.client.post("/api/open/images", files={"file": ("x.zip", bytes(packed))})
        assert answer.status_code in (200, 422), answer.text


def test_a_zip_with_a_list_that_would_fill_the_memory_is_refused(server):
    """A million entries of 46 bytes each become a gigabyte of objects."""
    small = zip_of({"a/1.png": b""}, zipfile.ZIP_STORED)
    begin, end = small.index(b"PK\1\2"), small.index(b"PK\5\6")
    entries = small[begin:end] * 500_000
    size = len(entries).to_bytes(4, "little")
    packed = small[:begin] + entries + small[end : end + 12] + size + small[end + 16 :]
    before = server.memory()
    answer = server.client.post("/api/open/images", files={"file": ("x.zip", packed)})
    refused(answer, 422, "too many files")
    assert server.memory() < before + 50


# -- clients that keep the server waiting ---------------------------------------------------------


@pytest.fixture(scope="module")
def impatient(tmp_path_factory):
    waits = {"head_seconds": 1, "stall_seconds": 1, "answer_seconds": 2, "n_large_bodies": 4}
    with Server(tmp_path_factory.mktemp("slow") / "work", **waits) as running:
        yield running


def connect(server, source="127.0.0.1"):
    address = urlsplit(server.address)
    return socket.create_connection((address.hostname, address.port), 30, (source, 0))


def head(server, first, *more):
    lines = (f"{first} HTTP/1.1", f"Host: {urlsplit(server.address).netloc}", *more)
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def upload_head(server, n_bytes):
    kind = "Content-Type: multipart/form-data; boundary=B"
    return head(server, "POST /api/images?class=slow", kind, f"Content-Length: {n_bytes}")


def answer_of(connection):
    """All bytes until the server closes."""
    answer = b""
    with suppress(ConnectionResetError):
        while chunk := connection.recv(65536):
            answer += chunk
    return answer


def seconds_until_closed(connection, sent, every=0.2, limit=15):
    """Go on sending, a byte at a time; the time until that is not wanted any more, and the answer."""
    begun = time.monotonic()
    connection.setblocking(False)
    answer = b""
    while time.monotonic() - begun < limit:
        with suppress(BlockingIOError):
            if not (chunk := connection.recv(65536)):
                return time.monotonic() - begun, answer
            answer += chunk
        try:
            connection.send(next(sent, b""))
        except OSError:
            return time.monotonic() - begun, answer
        time.sleep(every)
    raise AssertionError("the connection stays open")


def test_a_head_that_does_not_end_is_not_waited_for(impatient):
    letters = repeat(b"x")
    for begin in (b"", b"GET / HTTP/1.1\r\nX-Slow: "):
        with connect(impatient) as connection:
            connection.sendall(begin)
            assert seconds_until_closed(connection, letters if begin else repeat(b""))[0] < 5
    with connect(impatient) as connection:  # also after an answer
        connection.sendall(head(impatient, "GET /api/state"))
        connection.recv(65536)
        assert seconds_until_closed(connection, chain([b"GET / HTTP/1.1\r\nX: "], letters))[0] < 5
    with connect(impatient) as connection:  # a body that nobody wants is not taken for ever
        connection.sendall(head(impatient, "GET /api/state", "Content-Length: 1000000"))
        assert seconds_until_closed(connection, letters)[0] < 5


def test_a_body_that_stops_is_refused(impatient):
    with connect(impatient) as connection:
        connection.sendall(upload_head(impatient, 2_000_000) + b"--B\r\n")
        answer = answer_of(connection)
    assert b" 408 " in answer.splitlines()[0] and b"too slowly" in answer


def test_a_body_that_drips_is_refused(impatient):
    """Also one that is refused for its size, and read to its end only for the browser's sake."""
    form = b'--B\r\nContent-Disposition: form-data; name="files"; filename="x.png"\r\n\r\n'
    json_head = head(
        impatient, "POST /api/classes", "Content-Type: application/json", "Content-Length: 50"
    )
    uploads = [upload_head(impatient, n_bytes) + form for n_bytes in (2_000_000, 100_000_000)]
    for begin in (json_head, *uploads):
        with connect(impatient) as connection:
            connection.sendall(begin)
            seconds, answer = seconds_until_closed(connection, repeat(b"-"))
        assert seconds < 8
        assert b" 408 " in answer.splitlines()[0]


def test_slow_bodies_of_one_address_do_not_stop_the_others(impatient):
    """Ten of them; four may be read at once, two of one address."""
    large = noise(7000, 1200)
    assert len(large) > 1_000_000
    slow = [connect(impatient, "127.0.0.7") for _ in range(10)]
    for connection in slow:
        connection.sendall(upload_head(impatient, 2_000_000) + b"--B\r\n")
    begun = time.monotonic()
    assert impatient.upload("large", ("1.png", large))["accepted"]
    assert time.monotonic() - begun < 3  # while the last of them is refused after five
    for connection in slow:
        assert b" 408 " in answer_of(connection)
        connection.close()


def test_an_answer_that_nobody_takes_is_not_kept(impatient):
    large = noise(7001, 3000)
    id = impatient.upload("large", ("2.png", large))["accepted"][0]["id"]
    open_files = f"/proc/{impatient.process.pid}/fd"
    before = len(os.listdir(open_files))
    waiting = [connect(impatient) for _ in range(5)]
    for connection in waiting:
        connection.sendall(head(impatient, f"GET /api/images/{id}/file"))
    time.sleep(1)
    assert len(os.listdir(open_files)) >= before + 5
    time.sleep(5)
    assert len(os.listdir(open_files)) <= before + 2
    for connection in waiting:
        assert len(answer_of(connection)) < len(large)
        connection.close()


# -- requests that are nonsense -------------------------------------------------------------------


def ask(server, request):
    """Bytes as they are; status, headers and body."""
    with connect(server) as connection:
        connection.sendall(request)
        begin, _, body = answer_of(connection).partition(b"\r\n\r\n")
    return int(begin.split()[1]), begin.decode("latin-1").lower(), body


@pytest.mark.parametrize(
    "path",
    ["/api/images/..%00/thumbnail", "/api/images/%2e%2e%2fx/thumbnail", "/api/images/..%00/file",
     "/%00", "/%ff%fe", "/" + "a" * 5000, "/" + "../" * 50, "/api/images?class=%00", "//x", "/\\",
     "/api/images?class=a&offset=" + "9" * 5000, "/api/inspect/cell?class=%00&predicted=%ff"],
)  # fmt: skip
def test_paths_that_are_nonsense_are_refused(server, path):
    status, _, body = ask(server, head(server, f"GET {path}", "Connection: close"))
    assert 400 <= status < 500 and json.loads(body)["error"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "127.0.0.1:" + "9" * 5000},
        {"Host": "[:" + "9" * 20},
        {"Origin": "http://["},
        {"Origin": "http://[::1"},
        {"Cookie": 'midfea="; =;;'},
        {"Content-Type": "multipart/form-data"},
        {"Content-Type": "multipart/form-data; boundary=" + "b" * 5000},
        {"Content-Type": "multipart/form-data; boundary=B; charset=none"},
        {"Transfer-Encoding": "gzip, chunked"},
        {"Content-Length": "9" * 19},
        {"Content-Length": "9" * 25},
        {"Content-Length": "-1"},
    ],
)
def test_headers_that_are_nonsense_are_refused(impatient, headers):
    usual = {"Host": urlsplit(impatient.address).netloc, "Connection": "close"}
    lines = [f"{name}: {value}" for name, value in (usual | headers).items()]
    request = "\r\n".join(("POST /api/images?class=x HTTP/1.1", *lines)) + "\r\n\r\n"
    assert 400 <= ask(impatient, request.encode())[0] < 500


def test_other_websites_may_visit_the_page_and_nothing_else(server):
    visit = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert server.client.get("/", headers=visit).status_code == 200
    for path in ("download/images", "download/model", "state", "docs", "images?class=a"):
        refused(server.client.get(f"/api/{path}", headers=visit), 403, "another website")
    own = {"sec-fetch-site": "same-origin", "sec-fetch-mode": "navigate"}
    assert server.client.get("/api/download/labels", headers=own).status_code == 200


@pytest.mark.parametrize(
    "path",
    ["/\\evil.example", "//evil.example", "/\\\\evil", "/%09/evil", "/%5cevil", "/%0d%0aX:1", "/é"],
)
def test_the_token_leads_to_this_server_only(tokened, path):
    plain, _, token = tokened.address.partition("?token=")
    request = head(tokened, f"GET {path}?token={token}&a=%0d", "Connection: close")
    status, headers, _ = ask(tokened, request)
    if status == 400:  # what is no address at all
        return
    assert status == 303
    location = re.search(r"location: (.*)", headers).group(1).strip()
    assert re.fullmatch(r"/([a-z0-9%.][!-~]*)?", location) and "\\" not in location
    assert urlsplit(urljoin(plain, location)).netloc == urlsplit(plain).netloc


@pytest.fixture(scope="module")
def tokened(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("token") / "work", host="127.0.0.2") as running:
        yield running


# -- images that are slow, and turned -------------------------------------------------------------


def slow_image(seed):
    """Some seconds of work for the decoder."""
    file = io.BytesIO()
    pixels = np.random.RandomState(seed).randint(0, 255, (2000, 2000)).astype(np.uint8)
    Image.fromarray(pixels).save(file, "JPEG2000", irreversible=False)
    return file.getvalue()


@pytest.mark.parametrize(("n_slow", "source"), [(2, "127.0.0.1"), (8, "127.0.0.9")])
def test_slow_images_do_not_block_the_others(tmp_path, n_slow, source):
    """Two of the same client, or many of another one."""
    with Server(tmp_path / "work") as running:
        running.upload("a", ("1.png", noise(1)))
        id = id_of(noise(1))

        def send(seed):
            files = {"files": (f"{seed}.jp2", contents[seed])}
            running.client.post("/api/images", params={"class": "slow"}, files=files)

        contents = [slow_image(seed) for seed in range(n_slow)]
        threads = [threading.Thread(target=send, args=(seed,)) for seed in range(n_slow)]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        shutil.rmtree(tmp_path / "work" / ".midfea" / "thumbnails" / id[:2])
        transport = httpx.HTTPTransport(local_address=source)
        with httpx.Client(base_url=running.address, transport=transport) as other:
            assert other.get("/api/state").status_code == 200
            assert other.get(f"/api/images/{id}/thumbnail").status_code == 200
            assert other.patch(f"/api/images/{id}", json={"class": "b"}).status_code == 200
            files = {"files": ("2.png", noise(2))}
            answer = other.post("/api/images", params={"class": "b"}, files=files)
        assert len(answer.json()["accepted"]) == 1
        n_alive = sum(thread.is_alive() for thread in threads)
        assert n_alive >= max(1, n_slow - 4), "others waited for the slow ones"
        for thread in threads:
            thread.join(60)


def test_a_turned_photo_has_one_size(tmp_path):
    """At the upload, after the index was made anew, in the labels and when it is classified."""
    exif, file = Image.Exif(), io.BytesIO()
    exif[0x0112] = 6
    Image.fromarray(np.random.RandomState(0).randint(0, 255, (60, 100)).astype(np.uint8)).save(
        file, "JPEG", exif=exif
    )
    with Server(tmp_path / "work") as running:
        image = running.upload("turned", ("1.jpg", file.getvalue()))["accepted"][0]
        assert (image["width"], image["height"]) == (60, 100)
    (tmp_path / "work" / ".midfea" / "index.json").unlink()
    with Server(tmp_path / "work") as running:
        assert running.get("images", **{"class": "turned"})["images"] == [image]
        assert ",turned,60,100," in running.client.get("/api/download/labels").text


# -- the token, failures and the end --------------------------------------------------------------


def test_a_token_can_be_asked_for_on_this_machine(tmp_path):
    with Server(tmp_path / "work", "--token") as running:
        plain, _, token = running.address.partition("?token=")
        assert plain.startswith("http://127.0.0.1:") and len(token) > 15
        refused(running.client.get("/api/state"), 401, "token")
        assert running.client.get(f"/?token={token}").status_code == 303
        assert running.client.get("/api/state").status_code == 200


def test_a_failure_is_told_noted_once_and_survived(tmp_path):
    images = tmp_path / "work" / "images"
    with open(tmp_path / "errors", "w+") as errors, Server(tmp_path / "work", errors=errors) as running:
        images.rmdir()
        images.write_text("no folder")
        time.sleep(1.1)  # the folder is looked at once a second
        refused(running.client.get("/api/state"), 500, "workspace cannot be read")
        assert (tmp_path / "errors").read_text().count("Traceback") == 1
        images.unlink()
        images.mkdir()
        assert running.state()["classes"] == []


@pytest.mark.parametrize("error", [MemoryError, RecursionError, ZeroDivisionError])
def test_whatever_goes_wrong_is_answered(error, capsys):
    async def failing(scope, receive, send):
        raise error("on purpose")

    async def asked():
        transport = httpx.ASGITransport(Unfailing(failing))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get("/")

    refused(asyncio.run(asked()), 500, "something went wrong", error.__name__)
    assert capsys.readouterr().err.count("Traceback") == 1


def test_sigterm_ends_everything_in_time(tmp_path):
    """While a training is under way, and a body arrives."""
    with Server(tmp_path / "work") as running:
        for seed in range(8):
            running.upload("ab"[seed % 2], (f"{seed}.png", noise(seed, 100)))
        assert running.client.post("/api/train", json={"preset": "fast"}).status_code == 202
        connection = connect(running)
        connection.sendall(upload_head(running, 2_000_000) + b"--B\r\n")
        time.sleep(1)
        begun = time.monotonic()
        running.stop()
        assert time.monotonic() - begun < 10
        assert running.process.returncode == 0
        connection.close()
    assert not list((tmp_path / "work" / ".midfea" / "incoming").iterdir())
    with FileLock(tmp_path / "work" / ".midfea" / "training.lock", timeout=5):
        pass  # its process is gone


def test_sigterm_does_not_wait_for_a_model_on_trial(tmp_path, model):
    (tmp_path / "model.midfea").write_bytes(slow(model))
    with Server(tmp_path) as running:
        time.sleep(1)
        begun = time.monotonic()
        running.stop()
        assert time.monotonic() - begun < 10
        assert running.process.returncode == 0


def test_what_a_killed_server_left_is_swept(tmp_path):
    hidden = tmp_path / "work" / ".midfea"
    running = Server(tmp_path / "work")
    running.kill()
    assert len(list((hidden / "incoming").iterdir())) == 1
    left = [hidden / "results" / ".x.json.0.unfinished", hidden / "features/0123/.y.0.unfinished"]
    for file in left:
        file.parent.mkdir(parents=True)
        file.write_text("half")
    with Server(tmp_path / "work"):
        assert not any(file.exists() for file in left)
        assert len(list((hidden / "incoming").iterdir())) == 1, "its own"
    assert not list((hidden / "incoming").iterdir())
