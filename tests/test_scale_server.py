"""Images on a server: they are read as those of a disk are, also when it goes away."""

import socket
import threading
from contextlib import contextmanager

import pyarrow.dataset as pads
import pytest

from many import MODEL, corrupt, encoded, write_tar, write_zip
from midfea.scale.extract import extract
from midfea.scale.local import Processes
from midfea.scale.manifest import write_manifest
from midfea.scale.shards import ERRORS

pytest.importorskip("aiohttp")
uvicorn = pytest.importorskip("uvicorn")


@contextmanager
def serving(folder, port=0):
    """Within this context the files of a folder are at http://127.0.0.1:port; yields the port."""
    from starlette.staticfiles import StaticFiles

    server = uvicorn.Server(uvicorn.Config(StaticFiles(directory=folder), log_level="critical"))
    listening = socket.create_server(("127.0.0.1", port))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def test_files_and_archives_of_a_server(tmp_path):
    there = tmp_path / "there"
    there.mkdir()
    for i in range(4):
        (there / f"{i}.png").write_bytes(encoded(i))
    (there / "bad.png").write_bytes(corrupt(2))
    (there / "list.tsv").write_text("".join(f"{name}.png\tone\n" for name in (0, 1, 2, 3, "bad")))
    write_tar(there / "a.tar", {f"x/{i}.png": encoded(i) for i in range(4, 40)})
    write_zip(there / "b.zip", {f"y/{i}.png": encoded(i) for i in range(40, 44)})
    with serving(there) as port:
        place = f"http://127.0.0.1:{port}"
        listed = write_manifest(
            [f"{place}/{name}" for name in ("list.tsv", "a.tar", "b.zip")], tmp_path / "m"
        )
        assert listed.labels == {"one": 5, "x": 36, "y": 4} and not listed.n_left_out
        counts = extract(
            tmp_path / "m", tmp_path / "two", MODEL, shard_size=9, executor=Processes(2)
        ).counts
        assert (counts.rows, counts.errors, counts.unreadable) == (44, 1, 0)
        (there / "b.zip").rename(there / "gone")
        gone = extract(tmp_path / "m", tmp_path / "f", MODEL, shard_size=9).counts
        assert (gone.rows, gone.errors, gone.unreadable) == (40, 5, 4)
        reasons = pads.dataset(tmp_path / "f" / ERRORS).to_table().to_pylist()
        assert sorted(row["reason"] for row in reasons)[:4] == ["no such file"] * 4
        (there / "gone").rename(there / "b.zip")
    away = extract(tmp_path / "m", tmp_path / "away", MODEL, shard_size=9).counts
    assert (away.rows, away.unreadable) == (0, 45)
    with serving(there, port):
        for name in ("f", "away"):
            again = extract(tmp_path / "m", tmp_path / name, MODEL, shard_size=9, retry=True).counts
            assert (again.rows, again.errors, again.unreadable) == (44, 1, 0)
