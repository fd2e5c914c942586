"""`midfea serve`: how long teaching takes, what fifty clients at once see, what kill -9 leaves.

    python benchmarks/serve.py --data DIR [--set sign_digits] [--only teach|load|kill] [--seconds 60]
        [--kills 20]

sign_digits: 2,062 photographs of ten hand signs. All is done over HTTP on the loopback address, with a
server in a process of its own.
"""

from __future__ import annotations

import http.client
import io
import json
import os
import random
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from urllib.parse import quote, urlsplit

import numpy as np
from PIL import Image, ImageOps

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from common import add_set, class_folder, make_parser
from serving import Server, id_of, teach_and_kill

BATCH = 40  # files in a request, as the page sends them
N_CLIENTS = 50
MORE = 20  # images added before training again


def main() -> None:
    parser = make_parser(__doc__)
    add_set(parser)
    parser.add_argument("--only", choices=("teach", "load", "kill"))
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--kills", type=int, default=20)
    asked = parser.parse_args()
    folder = class_folder(asked)
    with tempfile.TemporaryDirectory() as scratch:
        if asked.only in (None, "teach"):
            teach(folder, Path(scratch) / "teach")
        if asked.only in (None, "load"):
            load(folder, Path(scratch) / "load", asked.seconds)
        if asked.only in (None, "kill"):
            n_images, n_training = teach_and_kill(Path(scratch) / "kill", asked.kills, 7, print)
            print(
                f"kill -9 at {asked.kills} moments, {n_training} of them while training: {n_images} "
                "images at the end, no accepted image or label lost, nothing half-written"
            )


def teach(folder: Path, workspace: Path) -> None:
    """Upload a folder and train; add images and train again; ask for answers with evidence."""
    photos = {c.name: sorted(c.iterdir()) for c in sorted(folder.iterdir()) if c.is_dir()}
    with Server(workspace) as server:
        begun = time.perf_counter()
        for label, paths in photos.items():
            for start in range(0, len(paths), BATCH):
                part = [(p.name, p.read_bytes()) for p in paths[start : start + BATCH]]
                assert not server.upload(label, *part)["refused"]
        sent = time.perf_counter() - begun
        assert server.train(preset="fast")["state"] == "done"
        taught = time.perf_counter() - begun
        model = server.state()["model"]
        accuracy = model["accuracy"]
        print(
            f"{model['images']} images sent in {sent:.1f} s, trained in {taught:.1f} s in all, accuracy "
            f"{accuracy['value']:.1%} ({accuracy['low']:.1%} to {accuracy['high']:.1%})"
        )
        label, paths = next(iter(photos.items()))
        begun = time.perf_counter()
        server.upload(label, *((f"more-{p.name}.png", _mirrored(p)) for p in paths[:MORE]))
        assert server.train(preset="fast")["state"] == "done"
        again = time.perf_counter() - begun
        print(f"{MORE} images more and trained again: {again:.1f} s")
        times, inside = [], []
        for path in [paths for paths in photos.values() for paths in paths[:5]]:
            begun = time.perf_counter()
            answer = server.client.post(
                "/api/classify", params={"explain": True}, files={"file": path.read_bytes()}
            ).json()
            times.append(1e3 * (time.perf_counter() - begun))
            inside.append(answer["milliseconds"])
            assert answer["evidence"]
        print(
            f"answer with evidence map: median {median(times):.0f} ms, slowest of {len(times)} "
            f"{max(times):.0f} ms (the model's part: median {median(inside):.0f} ms)"
        )


def _mirrored(path: Path) -> bytes:
    file = io.BytesIO()
    with Image.open(path) as image:
        ImageOps.mirror(image).save(file, "PNG")
    return file.getvalue()


# -- many clients ---------------------------------------------------------------------------------


def load(folder: Path, workspace: Path, seconds: float) -> None:
    """Uploads of good and bad files by many clients at once, as fast as the server takes them."""
    good, bad = _photos(folder), _bad_files()
    with Server(workspace) as server:
        clients = [Client(server.address, number, good, bad) for number in range(N_CLIENTS)]
        end = time.monotonic() + seconds
        for client in clients:
            client.end = end
            client.start()
        time.sleep(min(10, seconds / 4))
        before = server.memory()
        most, watched = before, threading.Event()

        def watch() -> None:
            nonlocal most
            while not watched.wait(0.2):
                most = max(most, server.memory())

        watcher = threading.Thread(target=watch)
        watcher.start()
        for client in clients:
            client.join()
        watched.set()
        watcher.join()
        time.sleep(2)
        after = server.memory()
        stored = server.all_images()
        accepted = {id: label for client in clients for id, label in client.accepted.items()}
        lost = sum(stored.get(id) != label for id, label in accepted.items())
        times = np.array([t for client in clients for t in client.times])
        failures = [failure for client in clients for failure in client.failures]
        alive = server.process.poll() is None and server.client.get("/api/state").status_code == 200
    n_bad = sum(client.n_bad for client in clients)
    print(
        f"{N_CLIENTS} clients for {seconds:.0f} s: {len(times)} images of 150x150 accepted "
        f"({len(times) / seconds:.0f} a second), p50 {1e3 * np.percentile(times, 50):.0f} ms, p95 "
        f"{1e3 * np.percentile(times, 95):.0f} ms; {n_bad} bad requests refused; unexpected answers "
        f"{len(failures)}, labels lost {lost}, images that nobody sent "
        f"{len(set(stored) - set(accepted))}; server {'alive' if alive else 'dead'}"
    )
    print(
        f"memory {before:.0f} MB after the first seconds, {most:.0f} MB at most, {after:.0f} MB at the "
        f"end ({after / before - 1:+.1%})"
    )
    for failure in failures[:5]:
        print("  ", failure)


def _photos(folder: Path) -> list[bytes]:
    """Photographs of 150x150 pixels, as JPEG files."""
    files = []
    for path in sorted(folder.glob("*/*"))[::50]:
        with Image.open(path) as image:
            file = io.BytesIO()
            image.convert("RGB").resize((150, 150)).save(file, "JPEG", quality=90)
            files.append(file.getvalue())
    return files


def _bad_files() -> list[tuple[str, bytes]]:
    bomb = io.BytesIO()
    Image.new("1", (20_000, 10_000)).save(bomb, "PNG")
    noise = np.random.RandomState(0).randint(0, 255, (300, 300, 3)).astype(np.uint8)
    whole = io.BytesIO()
    Image.fromarray(noise).save(whole, "PNG")
    return [
        ("bomb.png", bomb.getvalue()),
        ("cut.png", whole.getvalue()[:100_000]),
        ("text.png", b"no image at all" * 100),
        ("empty.png", b""),
        ("../../evil.png", whole.getvalue()),
        ("large.bmp", os.urandom(5_000_000)),
    ]


class Client(threading.Thread):
    """Sends three good images of four; the others are bad in one way or another."""

    def __init__(
        self, address: str, number: int, good: list[bytes], bad: list[tuple[str, bytes]]
    ) -> None:
        super().__init__(daemon=True)
        place = urlsplit(address)
        self.connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=60)
        self.random, self.number, self.good, self.bad = random.Random(number), number, good, bad
        self.end = 0.0
        self.accepted: dict[str, str] = {}
        self.times: list[float] = []
        self.failures: list[str] = []
        self.n_bad = 0

    def run(self) -> None:
        count = 0
        while time.monotonic() < self.end:
            count += 1
            if self.random.random() < 0.75:
                self._send_good(f"{self.number}-{count}")
            else:
                self._send_bad()
        self.connection.close()

    def _send_good(self, name: str) -> None:
        content = self.random.choice(self.good) + name.encode()  # what follows a JPEG's end is not read
        label = f"class {self.random.randrange(5)}"
        begun = time.perf_counter()
        status, answer = self._post(label, f"{name}.jpg", content)
        self.times.append(time.perf_counter() - begun)
        if status == 200 and len(answer["accepted"]) == 1:
            self.accepted[id_of(content)] = label
        else:
            self.failures.append(f"good: {status} {answer}")

    def _send_bad(self) -> None:
        name, content = self.random.choice(self.bad)
        kind = "text/plain" if self.random.random() < 0.1 else None
        status, answer = self._post("class 0", name, content, kind)
        self.n_bad += 1
        fine = status == 415 if kind else status == 200 and len(answer["refused"]) == 1
        if not fine:
            self.failures.append(f"{name}: {status} {answer}")

    def _post(self, label: str, name: str, content: bytes, kind: str | None = None) -> tuple[int, dict]:
        body = (
            f'--B\r\nContent-Disposition: form-data; name="files"; filename="{name}"\r\n'
            "Content-Type: image/jpeg\r\n\r\n"
        ).encode() + content
        headers = {"Content-Type": kind or "multipart/form-data; boundary=B"}
        self.connection.request(
            "POST", f"/api/images?class={quote(label)}", body + b"\r\n--B--\r\n", headers
        )
        response = self.connection.getresponse()
        return response.status, json.loads(response.read())


if __name__ == "__main__":
    main()
