"""Requests that no page would send, a dozen in a row: every one is answered, none with a 5xx."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import scratch
from harnesses.images import plain_files
from models import KEPT, model_files
from mutate import VALUES, changed_value, mutated
from server import HOST, Request, form, serving

N_REQUESTS = 12
METHODS = ("GET", "POST", "PATCH", "DELETE", "PUT", "HEAD", "OPTIONS", "TRACE", "x")
PATHS = (
    *("/", "/api/state", "/api/classes", "/api/images", "/api/train", "/api/classify", "/api/explain"),
    *("/api/inspect", "/api/inspect/cell", "/api/open/model", "/api/open/images", "/api/docs"),
    *("/api/openapi.json", "/api/download/model", "/api/download/images", "/api/download/labels"),
    *(
        "/api/download/x",
        "/app.js",
        "/core/api.js",
        "/../etc/passwd",
        "/api/\0",
        "/é",
        "//",
        "/api/../x",
    ),
)
TEXTS = (
    *(
        "cats",
        "dogs",
        "x",
        "",
        " ",
        ".",
        "..",
        "../x",
        "a/b",
        "a\\b",
        "é",
        "\0",
        "\n",
        "CON",
        "cats ",
        "CATS",
    ),
    *(
        "x" * 300,
        "-1",
        "0",
        "1",
        "5",
        "99999999999999999999",
        "1e9",
        "nan",
        "true",
        "[]",
        "%00",
        "\ud800",
    ),
)
KEYS = ("class", "id", "explain", "offset", "limit", "with_images", "predicted", "name", "x")
BODIES: tuple[Any, ...] = (
    *({"name": "cats"}, {"name": "new"}, {"class": "dogs"}, {"preset": "x"}, {"finetune": "no"}, {}, []),
    *({"preset": "fast", "finetune": 3}, {"name": ["a"]}, {"class": {"class": 1}}),
)


def case(random: Random) -> None:
    """A fresh workspace with two images and a model, and some requests."""
    requests = [_request(random) for _ in range(N_REQUESTS)]
    scratch.note("\n".join(f"{request!r:.2000}" for request in requests))
    with serving(_template()) as server:
        for request in requests:
            status, body = server.ask(request)
            assert 200 <= status < 500, f"{request!r:.500}: status {status}, {body!r:.300}"
            ranged = b"range" in dict(request.headers)  # starlette refuses those in words of its own
            if status >= 400 and request.method != "HEAD" and not ranged:
                _check_error(status, body)


def warm_up() -> None:
    """Load the model, and make the page of the API."""
    with serving(_template()) as server:
        for path in ("/api/state", "/api/openapi.json", "/api/inspect"):
            server.ask(Request("GET", path, b"", [(b"host", HOST)]))
    for seed in range(10):
        case(Random(seed))


def _check_error(status: int, body: bytes) -> None:
    """Every failure has one form."""
    answer = json.loads(body)
    assert set(answer) == {"error"} and answer["error"], f"status {status}: {answer}"


@cache
def _template() -> Path:
    folder = scratch.folder() / "template"
    for label, content in zip(("cats", "dogs"), plain_files()[:2], strict=False):
        (folder / "images" / label).mkdir(parents=True)
        (folder / "images" / label / "1.jpg").write_bytes(content)
    shutil.copyfile(KEPT / "fast-v2.midfea", folder / "model.midfea")
    return folder


def _request(random: Random) -> Request:
    path = random.choice(PATHS)
    if random.random() < 0.4:
        path += "/" + random.choice((*TEXTS, *_ids())) + random.choice(("", "", "/file", "/thumbnail"))
    query = "&".join(
        f"{random.choice(KEYS)}={quote(random.choice((*TEXTS, *_ids())), errors='replace')}"
        for _ in range(random.choice((0, 1, 1, 2, 5)))
    )
    method = random.choice(METHODS[:4] if random.random() < 0.9 else METHODS)
    kind, body = _body(random)
    headers = [(b"host", HOST), (b"content-type", kind), (b"content-length", b"%d" % len(body))]
    sent = query.encode() if random.random() < 0.95 else random.randbytes(20)
    return Request(method, path, sent, _changed_headers(random, headers), body)


def _body(random: Random) -> tuple[bytes, bytes]:
    what = random.random()
    if what < 0.25:
        return b"application/json", b""
    if what < 0.55:
        value = changed_value(random, random.choice(BODIES)) if random.random() < 0.7 else None
        text = json.dumps(random.choice(VALUES) if value is None else value)
        body = text.encode("utf-8", "replace")
        return b"application/json", mutated(random, body) if random.random() < 0.3 else body
    if what < 0.6:
        return b"application/json", b"[" * 50_000
    images, models = plain_files(), model_files()
    content = random.choice((*images, *images, random.choice(models), b"", b"PK\x05\x06" + bytes(18)))
    if random.random() < 0.5:
        content = mutated(random, content, images)
    field = random.choice((b"file", b"file", b"files", b"files", b"x", b""))
    name = random.choice(TEXTS).encode("utf-8", "replace").replace(b'"', b"")
    kind, body = form(field, random.choice((b"1.png", b"m.midfea", name)), content)
    return kind, mutated(random, body) if random.random() < 0.3 else body


def _changed_headers(random: Random, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    if random.random() < 0.8:
        return headers
    names = (
        b"host",
        b"origin",
        b"content-type",
        b"content-length",
        b"range",
        b"if-none-match",
        b"cookie",
    )
    more = (b"sec-fetch-site", b"transfer-encoding", b"if-modified-since", b"accept", b"authorization")
    values = (b"", b"x", b"-1", b"0", b"99999999999999999999", b"\xff\xfe", b"bytes=5-1", b"bytes=0-,-1")
    others = (b"http://127.0.0.1:8000", b"http://[", b"127.0.0.1:\xb2", b"multipart/form-data", b'W/"x"')
    name = random.choice(names + more)
    kept = [header for header in headers if header[0] != name or random.random() < 0.3]
    return [*kept, (name, random.choice(values + others))]


@cache
def _ids() -> tuple[str, ...]:
    """Of the two images."""
    with serving(_template()) as server:
        return tuple(sorted(image.id for image in server.workspace.images.all()))
