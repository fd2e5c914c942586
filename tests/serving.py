"""A real `midfea serve` in a process of its own, and a user who goes on teaching until it is killed."""

import hashlib
import io
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import numpy as np
from filelock import FileLock
from PIL import Image


class Server:
    """The command, and a client that speaks to it."""

    def __init__(self, folder, *arguments, host="127.0.0.1", errors=None, **settings):
        """settings: fields of `ServeSettings`, in place of the usual ones."""
        self.folder = folder
        asked = [
            "serve",
            *map(str, arguments),
            "--workspace",
            str(folder),
            "--port",
            "0",
            "--host",
            host,
        ]
        start = "from midfea.cli import main; main()"
        if settings:
            start = (
                "from pathlib import Path; from midfea.serve import server, settings; "
                f"server.run(Path({str(folder)!r}), {host!r}, 0, settings="
                f"settings.ServeSettings(**{settings!r}))"
            )
        self.process = subprocess.Popen(
            [sys.executable, "-c", start, *asked],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "COLUMNS": "200"},
        )
        found = (re.search(r"http://\S+", line) for line in self.process.stdout)
        self.address = next(filter(None, found)).group()
        self.client = httpx.Client(base_url=self.address.partition("?")[0], timeout=60)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self.process.terminate()
        self._gone()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self._gone()

    def _gone(self):
        self.process.wait(30)
        self.process.stdout.close()
        self.client.close()

    def memory(self):
        """Megabytes that the server holds."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) / 1000

    def get(self, path, **query):
        answer = self.client.get(f"/api/{path}", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def state(self):
        """The state, once a model that is being loaded is there."""
        while (state := self.get("state"))["model_loading"]:
            time.sleep(0.02)
        return state

    def upload(self, label, *files):
        """files: (name, bytes) each."""
        parts = [("files", file) for file in files]
        answer = self.client.post("/api/images", params={"class": label}, files=parts)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def train(self, **settings):
        """Train to the end; the job's last words."""
        started = self.client.post("/api/train", json=settings)
        assert started.status_code == 202, started.text
        return self.wait()

    def wait(self, seconds=300):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            job = self.state()["job"]
            if job["state"] != "running":
                return job
            time.sleep(0.05)
        raise AssertionError("the training did not end")

    def all_images(self):
        """Class and id of every image, as the server tells them."""
        found = {}
        for each in self.state()["classes"]:
            for offset in range(0, max(each["images"], 1), 1000):
                part = {"class": each["name"], "offset": offset, "limit": 1000}
                listed = self.get("images", **part)
                assert listed["total"] == each["images"]
                found |= {image["id"]: image["class"] for image in listed["images"]}
        return found


def png(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def noise(seed, size=48):
    """A file that no other seed gives."""
    return png(np.random.RandomState(seed).randint(0, 255, (size, size)).astype(np.uint8))


STRIPES = ("across", "down", "slanted")


def stripes(n=60, n_wrong=4, size=48):
    """(class, name, file) of striped images, easy to tell apart; and by id the true class of the few
    that are put into the class after theirs."""
    rng = np.random.RandomState(0)
    y, x = np.mgrid[:size, :size]
    wrong, files, true = [11 * i + 2 for i in range(n_wrong)], [], {}
    for i in range(len(STRIPES) * n):
        k = i // n
        wave = (x, y, x + y)[k] / rng.uniform(4, 7) + rng.uniform()
        pixels = 128 + 60 * np.sin(2 * np.pi * wave) + rng.normal(0, 12, (size, size))
        content = png(np.clip(pixels, 0, 255).astype(np.uint8))
        if i in wrong:
            true[id_of(content)] = STRIPES[k]
            k = (k + 1) % len(STRIPES)
        files.append((STRIPES[k], f"IMG_{i}.png", content))
    return files, true


def id_of(content):
    return hashlib.sha256(content).hexdigest()[:20]


MOST = 80  # images that a teacher keeps: training shall not take long


class Teacher(threading.Thread):
    """Adds, moves and removes images without end; knows what was accepted, and what it cannot know."""

    labels = ("cats", "dogs", "birds")

    def __init__(self, server, seed, placed):
        super().__init__(daemon=True)
        self.server, self.random, self.seed = server, random.Random(seed), seed
        self.placed = placed  # id to class, of all images accepted
        self.unsure = {}  # id to what may be: a request that was not answered
        self.sent = set(placed)
        self.n_done = 0

    def run(self):
        with httpx.Client(base_url=self.server.address, timeout=30) as client:
            while True:
                try:
                    self._do_something(client)
                except httpx.HTTPError:
                    return
                self.n_done += 1
                time.sleep(0.02)

    def _do_something(self, client):
        what = self.random.random()
        if (what < 0.5 and len(self.placed) < MOST) or len(self.placed) < 12:
            self._upload(client)
            return
        id = self.random.choice(sorted(self.placed))
        if what < 0.75:
            label = self.random.choice(self.labels)
            self.unsure[id] = {self.placed[id], label}
            answer = client.patch(f"/api/images/{id}", json={"class": label})
            assert answer.status_code == 200, answer.text
            self.placed[id] = label
        else:
            self.unsure[id] = {self.placed[id], None}
            answer = client.delete(f"/api/images/{id}")
            assert answer.status_code == 200, answer.text
            del self.placed[id]
        del self.unsure[id]

    def _upload(self, client):
        label = self.random.choice(self.labels)
        contents = [noise(1000 * self.seed + 3 * self.n_done + i) for i in range(3)]
        ids = [id_of(content) for content in contents]
        self.sent |= set(ids)
        self.unsure |= {id: {None, label} for id in ids}
        files = [
            ("files", (f"{id[:4]}.png", content)) for id, content in zip(ids, contents, strict=True)
        ]
        answer = client.post("/api/images", params={"class": label}, files=files)
        assert answer.status_code == 200, answer.text
        for image in answer.json()["accepted"]:
            self.placed[image["id"]] = image["class"]
            del self.unsure[image["id"]]


def teach_and_kill(folder, n_kills, seed=0, log=lambda line: None):
    """Kill a server at random moments of teaching and training; after each, all must be there.

    Returns how many images are there at the end, and how many kills met a training under way.
    """
    chosen, placed, n_training = random.Random(seed), {}, 0
    server = Server(folder)
    try:
        for kill in range(1, n_kills + 1):
            teacher = Teacher(server, 100 * seed + kill, placed)
            teacher.start()
            while len({*placed.values()}) < 2 or len(placed) < 12:
                assert teacher.is_alive()
                time.sleep(0.01)
            assert server.client.post("/api/train", json={"preset": "paper"}).status_code == 202
            if kill % 3 == 0:  # about when the model takes its place
                while server.state()["job"]["fraction"] < 0.9:
                    time.sleep(0.02)
                time.sleep(chosen.uniform(0, 1))
            else:
                time.sleep(chosen.uniform(0, 2))
            n_training += server.state()["job"]["state"] == "running"
            server.kill()
            teacher.join(30)
            assert not teacher.is_alive()
            server = Server(folder)
            check_whole(server, teacher)
            log(f"kill {kill}: after {teacher.n_done} changes {len(placed)} images, all there")
    finally:
        server.stop()
    return len(placed), n_training


def check_whole(server, teacher):
    """Every accepted image and label is there; nothing is there that was not sent, or half of it."""
    with FileLock(server.folder / ".midfea" / "training.lock", timeout=20):
        pass  # the training's process ends when it finds its server gone
    on_disk = {}
    for path in server.folder.glob("images/*/*"):
        content = path.read_bytes()
        Image.open(io.BytesIO(content)).load()
        id = id_of(content)
        assert id in teacher.sent, f"{path} was never sent"
        assert id not in on_disk, f"{path} is there twice"
        on_disk[id] = path.parent.name
    for id, label in teacher.placed.items():
        may_be = teacher.unsure.get(id, {label})
        assert on_disk.get(id) in may_be, f"{id} is in {on_disk.get(id)}, not in {may_be}"
    for id in set(on_disk) - set(teacher.placed):
        assert on_disk[id] in teacher.unsure[id]
    assert server.all_images() == on_disk
    teacher.placed.clear()
    teacher.placed.update(on_disk)
    incoming = server.folder / ".midfea" / "incoming"
    assert len(list(incoming.iterdir())) == 1, "unfinished files are swept"
    state = server.state()
    assert state["model_error"] is None, state["model_error"]
    if state["model"] is not None:  # whole, and with its own results
        assert state["model"]["opened"] is False
        inspected = server.get("inspect")
        assert inspected["classes"] == state["model"]["classes"]
        assert inspected["accuracy"]["n"] <= state["model"]["images"]
        any_image = next(iter(on_disk))
        answer = server.client.post("/api/classify", params={"id": any_image})
        assert answer.status_code == 200, answer.text
