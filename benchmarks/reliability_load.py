"""Many clients at once for a long time: answers, times and memory of `midfea serve`.

Each client teaches and asks: it uploads images and removes old ones, so that their number stays the
same, moves some, classifies, lists, and sends what is no image.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import numpy as np

from serving import Server, noise

N_CLIENTS = 30
N_KEPT = 20  # images of each client
PAUSE_SECONDS = 0.2  # between two requests of a client, on average
LABELS = ("cats", "dogs", "birds")
BAD_FILES = (b"no image", b"", b"\x89PNG\r\n\x1a\n" + bytes(200), b"%!PS-Adobe-3.0 EPSF-3.0\n{ } loop\n")


class Client(threading.Thread):
    """One user until the end; `times` and `statuses` of all requests, `failures` that should not be."""

    def __init__(self, address: str, number: int, end: float) -> None:
        super().__init__(daemon=True)
        self.http = httpx.Client(base_url=address, timeout=60)
        self.random, self.number, self.end = random.Random(number), number, end
        self.own: list[str] = []
        self.n_sent = 0
        self.times: list[float] = []
        self.statuses: Counter[int] = Counter()
        self.failures: list[str] = []

    def run(self) -> None:
        actions = (
            self.upload,
            self.upload,
            self.move,
            self.classify,
            self.look,
            self.look,
            self.nonsense,
        )
        while time.monotonic() < self.end:
            try:
                self.random.choice(actions)()
            except httpx.HTTPError as error:
                self.failures.append(repr(error))
            time.sleep(self.random.uniform(0, 2 * PAUSE_SECONDS))

    def ask(self, method: str, path: str, *expected: int, **request: Any) -> httpx.Response:
        begun = time.monotonic()
        answer = self.http.request(method, f"/api/{path}", **request)
        self.times.append(time.monotonic() - begun)
        self.statuses[answer.status_code] += 1
        if answer.status_code not in expected:
            self.failures.append(f"{method} {path}: {answer.status_code} {answer.text[:200]}")
        return answer

    def upload(self) -> None:
        self.n_sent += 1
        file = ("files", ("x.png", noise(1_000_000 * self.number + self.n_sent)))
        answer = self.ask(
            "POST", "images", 200, params={"class": self.random.choice(LABELS)}, files=[file]
        )
        self.own += [image["id"] for image in answer.json()["accepted"]]
        if len(self.own) > N_KEPT:
            self.ask("DELETE", f"images/{self.own.pop(0)}", 200)

    def move(self) -> None:
        if self.own:
            body = {"class": self.random.choice(LABELS)}
            self.ask("PATCH", f"images/{self.random.choice(self.own)}", 200, json=body)

    def classify(self) -> None:
        if self.own:
            explain = self.random.random() < 0.3
            query = {"id": self.random.choice(self.own), "explain": explain}
            self.ask("POST", "classify", 200, params=query)

    def look(self) -> None:
        what = self.random.choice(("state", "list", "inspect", "thumbnail"))
        if what == "thumbnail":
            if self.own:
                self.ask("GET", f"images/{self.random.choice(self.own)}/thumbnail", 200)
        elif what == "list":
            self.ask("GET", "images", 200, params={"class": self.random.choice(LABELS)})
        else:
            self.ask("GET", what, 200)

    def nonsense(self) -> None:
        bad = self.random.choice(BAD_FILES)
        if self.random.random() < 0.5:
            files = [("files", ("x.png", bad))]
            answer = self.ask("POST", "images", 200, 422, params={"class": "cats"}, files=files)
            assert not answer.json().get("accepted"), answer.text
        else:
            self.ask("PATCH", "images/none", 404, 422, json={"class": "x"})


def load(folder: Path, seconds: float) -> list[dict[str, Any]]:
    """One row: requests, failures, times in ms, memory in MB at the first third and in the last."""
    with Server(folder) as server:
        for label, start in zip(LABELS, (0, 100, 200), strict=True):
            server.upload(label, *((f"{i}.png", noise(10**9 + start + i)) for i in range(12)))
        assert server.train(preset="paper")["state"] == "done"
        end = time.monotonic() + seconds
        clients = [Client(server.address, number, end) for number in range(N_CLIENTS)]
        for client in clients:
            client.start()
        memory = []
        while time.monotonic() < end:
            time.sleep(min(5.0, seconds / 30))
            memory.append(server.memory())
        for client in clients:
            client.join(120)
        alive = server.client.get("/api/state").status_code == 200
    part = len(memory) // 6
    early, late = median(memory[part : 2 * part]), median(memory[-part:])
    times = 1e3 * np.array([t for client in clients for t in client.times])
    failures = [failure for client in clients for failure in client.failures]
    for failure in failures[:5]:
        print("  ", failure)
    return [
        {
            "clients": N_CLIENTS,
            "minutes": round(seconds / 60, 1),
            "requests": len(times),
            "failures": len(failures),
            "statuses": dict(sorted(sum((c.statuses for c in clients), Counter()).items())),
            "p50 ms": round(float(np.percentile(times, 50))),
            "p95 ms": round(float(np.percentile(times, 95))),
            "memory early MB": round(early),
            "memory late MB": round(late),
            "memory most MB": round(max(memory)),
            "change": f"{late / early - 1:+.1%}",
            "alive": alive,
        }
    ]
