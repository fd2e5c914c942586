"""Damaged and hostile ZIP files, uploaded: images are accepted or refused, none lies elsewhere."""

from __future__ import annotations

import io
import zipfile
from functools import cache
from pathlib import Path
from random import Random

import scratch
from harnesses.images import plain_files
from mutate import mutated
from server import HOST, Request, Server, form

NAMES = (
    *("cats/1.png", "dogs/2.jpg", "a/b/c/3.gif", "4.png", "/etc/5.png", "../6.png", "x/../../7.png"),
    *(
        "C:\\8.png",
        "cats\\9.png",
        "cats/",
        "é/é.png",
        "x" * 300 + "/1.png",
        "a/" + "x" * 300,
        "a/\0.png",
    ),
    *("CON/1.png", "./1.png", "a/.", "a/..", ".midfea/1.png", "__MACOSX/a/1.png", "a/.DS_Store", "a/ "),
    *("\u202e/1.png", "a/1.png\n", "cats/1.PNG", "CATS/1.png", "a//b.png", "", "/", "~/1.png"),
)
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


def case(random: Random) -> None:
    """A file that somebody made, every second time with damage."""
    content = _made(random)
    replay(mutated(random, content) if random.random() < 0.6 else content)


def replay(content: bytes) -> None:
    """Upload it, check what is there, and take it away again."""
    scratch.note(content)
    server = _server()
    kind, body = form(b"file", b"images.zip", content)
    headers = [(b"host", HOST), (b"content-type", kind), (b"content-length", b"%d" % len(body))]
    status, answer = server.ask(Request("POST", "/api/open/images", b"", headers, body))
    assert status in (200, 422), f"status {status}: {answer!r:.300}"
    root = server.workspace.root
    for path in scratch.folder().rglob("*"):
        known = path.parent == scratch.folder() or root == path or root in path.parents
        assert known, f"{path} lies outside"
    for path in sorted((root / "images").rglob("*"), reverse=True):
        depth = len(path.relative_to(root / "images").parts)
        assert depth == (1 if path.is_dir() else 2), f"{path} lies in no class"
    for name in [path.name for path in (root / "images").iterdir()]:
        server.workspace.changes.remove_class(name, with_images=True)


def warm_up() -> None:
    """Once each way."""
    for seed in range(20):
        case(Random(seed))


@cache
def _server() -> Server:
    return Server(Path(scratch.folder() / "zipped"))


def _made(random: Random) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for _ in range(random.choice((0, 1, 2, 3, 8))):
            info = zipfile.ZipInfo(random.choice(NAMES) or "x")
            info.compress_type = random.choice(METHODS)
            if random.random() < 0.1:
                info.external_attr = 0o120777 << 16  # a symbolic link
            archive.writestr(info, _content(random))
        archive.comment = random.choice((b"", b"x" * 1000))
    return file.getvalue()


def _content(random: Random) -> bytes:
    what = random.random()
    if what < 0.6:
        return random.choice(plain_files())
    if what < 0.8:
        return mutated(random, random.choice(plain_files()))
    return random.choice((b"", b"/etc/passwd", bytes(2_000_000), random.randbytes(100)))
