"""Sources and manifests: every kind of source is listed, and every address can be read."""

import hashlib
import json
import os
import tarfile
import tracemalloc
from contextlib import closing

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command import fails_in_one_line, midfea
from many import encoded, write_parquet, write_photos, write_tar, write_zip
from midfea.extras import install_line
from midfea.pictures.limits import ImageError, ImageLimits
from midfea.scale.address import Address
from midfea.scale.manifest import Manifest, ManifestError, is_manifest, write_manifest
from midfea.scale.reader import ImageReader
from midfea.scale.sources import Entry, find_entries


def listed(source):
    """The entries of a source; nothing was left out."""
    found = list(find_entries(str(source)))
    assert all(isinstance(each, Entry) for each in found), found
    return found


def left_out(source):
    return {each.path: each.reason for each in find_entries(str(source)) if not isinstance(each, Entry)}


def read(address, limits=None):
    with closing(ImageReader(limits)) as reader:
        return reader.content(str(address))


def contents(entries):
    with closing(ImageReader()) as reader:
        read = [reader.content(entry.address) for entry in entries]
    assert all(entry.size in (None, len(content)) for entry, content in zip(entries, read, strict=True))
    return read


def test_folder_of_class_folders(tmp_path):
    write_photos(tmp_path / "p", 4)
    (tmp_path / "p/cats/deep/er").mkdir(parents=True)
    (tmp_path / "p/cats/deep/er/x.JPG").write_bytes(encoded(9))
    (tmp_path / "p/top.png").write_bytes(encoded(8))
    (tmp_path / "p/cats/.hidden.png").write_bytes(b"")
    (tmp_path / "p/.git").mkdir()
    (tmp_path / "p/.git/1.png").write_bytes(b"")
    (tmp_path / "p/notes.txt").write_text("not read")
    entries = listed(tmp_path / "p")
    assert [(os.path.relpath(e.address, tmp_path), e.label) for e in entries] == [
        ("p/cats/0000.png", "cats"),
        ("p/cats/0002.png", "cats"),
        ("p/cats/deep/er/x.JPG", "cats"),
        ("p/dogs/0001.png", "dogs"),
        ("p/dogs/0003.png", "dogs"),
        ("p/top.png", None),
    ]
    assert contents(entries) == [encoded(i) for i in (0, 2, 9, 1, 3, 8)]


def test_a_folder_is_listed_by_the_rules_of_load_folder(tmp_path):
    """Other pictures are named, links to folders are not followed."""
    write_photos(tmp_path / "p", 2)
    (tmp_path / "p/cats/raw.nef").write_bytes(b"")
    (tmp_path / "p/cats/again").symlink_to(tmp_path / "p")
    reasons = left_out(tmp_path / "p")
    assert "does not read .nef files" in reasons[str(tmp_path / "p/cats/raw.nef")]
    assert "links are not followed" in reasons[str(tmp_path / "p/cats/again")]
    assert len(reasons) == 2


def test_pattern_one_image_and_nothing(tmp_path):
    write_photos(tmp_path, 4)
    assert [e.label for e in listed(tmp_path / "*/*.png")] == ["cats", "cats", "dogs", "dogs"]
    assert [e.label for e in listed(tmp_path / "c*")] == [None, None]  # files of a folder itself
    assert contents(listed(tmp_path / "cats/0000.png")) == [encoded(0)]
    assert listed(tmp_path / "*.gif") == []
    with pytest.raises(FileNotFoundError, match=r"no such file or folder. Did you mean .*cats"):
        listed(tmp_path / "cast")


def test_list_of_files(tmp_path):
    write_photos(tmp_path, 2)
    tar = write_tar(tmp_path / "a.tar", {"x.png": encoded(5)})
    lines = ["cats/0000.png\tkätzchen", "", f"{tmp_path}/dogs/0001.png", f"{tar}#x.png\tx\r"]
    (tmp_path / "list.txt").write_text("\n".join(lines))
    entries = listed(tmp_path / "list.txt")
    assert [e.label for e in entries] == ["kätzchen", None, "x"]
    assert contents(entries) == [encoded(0), encoded(1), encoded(5)]
    (tmp_path / "bytes.txt").write_bytes(b"caf\xe9.png\n")
    assert "not valid UTF-8" in next(iter(left_out(tmp_path / "bytes.txt").values()))
    (tmp_path / "long.txt").write_bytes(b"x" * 200_000)
    with pytest.raises(ValueError, match=r"line 1 is no file name"):
        listed(tmp_path / "long.txt")


def test_tar_in_webdataset_layout(tmp_path):
    files = {
        "000.png": encoded(0),
        "000.cls": b"7\n",
        "a/001.seg.png": encoded(1),
        "a/001.cls": b"9",
        "b/002.png": encoded(2),
        "b/._002.png": b"of a Mac",
        "./003.png": encoded(3),
    }
    tar = write_tar(tmp_path / "shard-000.tar", files)
    entries = listed(tar)
    assert [e.address.removeprefix(f"{tar}#") for e in entries] == [
        "000.png",
        "a/001.seg.png",
        "b/002.png",
        "./003.png",
    ]
    assert [e.label for e in entries] == ["7", "9", "b", None]
    assert contents(entries) == [encoded(i) for i in range(4)]
    assert contents(entries[::-1]) == [encoded(i) for i in (3, 2, 1, 0)]


def test_damaged_tar_files_say_so(tmp_path):
    tar = write_tar(tmp_path / "a.tar", {f"{i}.png": encoded(i) for i in range(4)})
    whole = tar.read_bytes()
    begin = whole.index(encoded(2))
    for damaged in (
        whole[: begin + 9],  # within an image
        whole[: begin - 9],  # within a header
        whole[: begin - 99] + b"no header" * 9 + whole[begin:],
    ):
        tar.write_bytes(damaged)
        *entries, last = find_entries(str(tar))
        assert contents(entries[:2]) == [encoded(0), encoded(1)] and len(entries) < 4
        assert "the archive is damaged" in last.reason
    tar.write_bytes(b"no tar at all" * 100)
    assert "damaged" in left_out(tar)[str(tar)]
    with tarfile.open(tmp_path / "b.tar.gz", "w:gz") as compressed:
        compressed.add(tar, "1.png")
    assert "unpack it to .tar" in left_out(tmp_path / "b.tar.gz")[str(tmp_path / "b.tar.gz")]
    with pytest.raises(FileNotFoundError, match="no such file in the archive"):
        read(f"{write_tar(tmp_path / 'c.tar', {})}#1.png")


def test_zip(tmp_path):
    names = {"photos/cats/1.png": encoded(1), "photos/dogs/ü.png": encoded(2), "x/": b"", "y.txt": b""}
    entries = listed(write_zip(tmp_path / "a.zip", names))
    assert [e.label for e in entries] == ["cats", "dogs"]
    assert contents(entries) == [encoded(1), encoded(2)]
    (tmp_path / "b.zip").write_bytes(b"PK no zip")
    assert "not a readable zip" in left_out(tmp_path / "b.zip")[str(tmp_path / "b.zip")]


def test_no_archive_is_unpacked_beyond_the_limit(tmp_path):
    """1 MB of zeros packs to a kilobyte; what a header says is checked before anything is read."""
    archive = write_zip(tmp_path / "a.zip", {"1.png": bytes(10**6)})
    tar = write_tar(tmp_path / "a.tar", {"1.png": bytes(10**6)})
    (tmp_path / "1.png").write_bytes(bytes(10**6))
    limits = ImageLimits(max_bytes=10**5)
    for address in (f"{archive}#1.png", f"{tar}#1.png", tmp_path / "1.png"):
        with pytest.raises(ImageError, match="has 1 MB, at most 0 are read"):
            read(address, limits)
    lying = bytearray(archive.read_bytes())
    for place in (22, lying.index(b"PK\1\2") + 24):  # the size in both of its headers
        lying[place : place + 4] = (1000).to_bytes(4, "little")
    (tmp_path / "lying.zip").write_bytes(lying)
    tracemalloc.start()
    with pytest.raises(ImageError, match="cannot be unpacked"):
        read(f"{tmp_path / 'lying.zip'}#1.png", limits)
    assert tracemalloc.get_traced_memory()[1] < 5 * 10**5
    tracemalloc.stop()


def test_parquet_with_bytes_and_as_hugging_face_writes_it(tmp_path):
    images = [encoded(i) for i in range(40)]
    plain = write_parquet(tmp_path / "a.parquet", images, [i % 2 for i in range(40)], row_group_size=30)
    entries = listed(plain)
    assert [e.label for e in entries] == ["0", "1"] * 20
    assert contents(entries) == images
    assert contents([entries[i] for i in (35, 3, 29, 30, 0)]) == [images[i] for i in (35, 3, 29, 30, 0)]
    names = {"info": {"features": {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}}}
    (tmp_path / "set").mkdir()
    structs = [{"bytes": image, "path": "x.png"} for image in images[:3]]
    write_parquet(tmp_path / "set/0.parquet", structs, [1, 0, None], {"huggingface": json.dumps(names)})
    write_parquet(tmp_path / "set/1.parquet", images[3:5])
    entries = listed(tmp_path / "set")
    assert [e.label for e in entries] == ["dog", "cat", None, None, None]
    assert contents(entries) == images[:5]
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"x": [1]}), other)
    assert "no column 'image'" in left_out(other)[str(other)]
    with pytest.raises(FileNotFoundError, match="no such row"):
        read(f"{plain}#40")


def test_addresses_of_fsspec(tmp_path):
    memory = fsspec.filesystem("memory")
    tar = write_tar(tmp_path / "a.tar", {"x/1.png": encoded(1)})
    files = {"cats/0.png": encoded(0), "cats/in/2.png": encoded(2), ".h/3.png": b"", "a.tar": tar}
    for name, content in files.items():
        memory.pipe(f"/many/{name}", content if isinstance(content, bytes) else content.read_bytes())
    entries = listed("memory://many")
    assert [e.label for e in entries] == ["x", "cats", "cats"]
    assert contents(entries) == [encoded(1), encoded(0), encoded(2)]
    assert contents(listed("memory://many/cats/*.png")) == [encoded(0)]
    memory.pipe("/many/list.tsv", b"cats/0.png\tone\nmemory://many/cats/in/2.png\ttwo\n")
    entries = listed("memory://many/list.tsv")
    assert [e.label for e in entries] == ["one", "two"]
    assert contents(entries) == [encoded(0), encoded(2)]
    with pytest.raises(FileNotFoundError, match="no such file or folder"):
        listed("memory://many/nothing")
    with pytest.raises(OSError, match="Protocol not known"):
        listed("nowhere://x")
    memory.rm("/many", recursive=True)


def test_unicode_and_very_long_names(tmp_path):
    folder = tmp_path / "猫 #1"
    folder.mkdir()
    (folder / "naïve\n%#.png").write_bytes(encoded(0))
    long = "/".join(["d" * 200] * 19 + ["x.png"])  # 3,824 characters
    tar = write_tar(tmp_path / "long.tar", {long: encoded(1), "é" * 2000 + ".png": encoded(2)})
    entries = listed(folder) + listed(tar)
    assert contents(entries) == [encoded(0), encoded(1), encoded(2)]
    manifest = tmp_path / "m.parquet"
    assert write_manifest([str(folder), str(tar)], manifest).n_images == 3
    assert [row.address for row in Manifest(manifest).rows(0, 3)] == [e.address for e in entries]
    bytes_name = os.fsencode(tmp_path / "猫 #1") + b"/\xff.png"
    with open(bytes_name, "wb") as file:
        file.write(encoded(3))
    assert "not valid UTF-8: rename it" in next(iter(left_out(folder).values()))


def test_addresses_are_read_as_they_were_written(tmp_path):
    for address in (
        Address("a#1.jpg"),
        Address("a.tar", "b.zip#c.png"),
        Address("s3://x/a.parquet", "7"),
    ):
        assert not address.problem and Address.parse(str(address)) == address
    assert "rename it" in Address("a.tar#b.png").problem
    (tmp_path / "a.tar#b.png").write_bytes(encoded(0))
    assert "rename it" in next(iter(left_out(tmp_path).values()))


def test_manifest_has_ids_labels_sizes_and_hashes(tmp_path):
    write_photos(tmp_path / "p", 5)
    (tmp_path / "list.txt").write_text("missing.png\tcats\np/cats/0000.png")
    path = tmp_path / "m.parquet"
    listed = write_manifest([str(tmp_path / "p"), str(tmp_path / "list.txt")], path, with_hash=True)
    rows = pq.read_table(path).to_pylist()
    assert [row["id"] for row in rows] == list(range(6))
    assert [row["label"] for row in rows] == ["cats"] * 3 + ["dogs"] * 2 + [None]
    assert rows[1]["sha256"] == hashlib.sha256(encoded(2)).hexdigest()
    assert rows[0]["size"] == rows[5]["size"] == len(encoded(0))
    assert listed.labels == {"cats": 3, "dogs": 2} and listed.n_left_out == 1
    assert listed.named[0].path.endswith("missing.png")
    write_manifest([str(tmp_path / "p")], path)
    assert pq.read_table(path)["sha256"].null_count == 5
    assert is_manifest(path) and not is_manifest(tmp_path)


def test_manifest_is_read_some_rows_at_a_time(tmp_path):
    table = {"id": range(100), "address": [f"{i}.png" for i in range(100)], "label": [1] * 100}
    pq.write_table(pa.table(table), tmp_path / "m.parquet", row_group_size=7)
    manifest = Manifest(tmp_path / "m.parquet")
    assert len(manifest) == 100
    for first, count in ((0, 100), (6, 2), (7, 7), (99, 1), (13, 40)):
        rows = manifest.rows(first, count)
        assert [row.id for row in rows] == list(range(first, first + count))
        assert rows[0] == (first, f"{first}.png", "1")


def test_other_files_are_no_manifests(tmp_path):
    path = tmp_path / "m.parquet"
    path.write_bytes(b"PAR1 is how it begins")
    with pytest.raises(ManifestError, match="not a readable Parquet file"):
        Manifest(path)
    pq.write_table(pa.table({"id": [0]}), path)
    with pytest.raises(ManifestError, match="no column 'address'"):
        Manifest(path)
    pq.write_table(pa.table({"id": [0, 2], "address": ["a", "b"]}), path)
    with pytest.raises(ManifestError, match="row 1 has id 2"):
        Manifest(path).rows(0, 2)


def test_a_long_list_takes_little_memory(tmp_path):
    (tmp_path / "list.txt").write_text("".join(f"folder/{i:050}.png\t{i % 3}\n" for i in range(40_000)))
    tracemalloc.start()
    assert write_manifest([str(tmp_path / "list.txt")], tmp_path / "m.parquet").n_images == 40_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6  # 10,000 rows; all of them would be 40 MB


def test_command(tmp_path):
    write_photos(tmp_path / "p", 5)
    (tmp_path / "p/dogs/1.nef").write_bytes(b"")
    result = midfea("manifest", "p", "-o", "m.parquet", "--hash", cwd=tmp_path)
    assert result.stdout == "Manifest: m.parquet (5 images, 2 classes: cats, dogs, 1 left out)\n"
    assert "1.nef: midfea does not read .nef files" in result.stderr
    assert len(Manifest(tmp_path / "m.parquet")) == 5


def test_a_manifest_of_nothing_is_not_written(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "1.cr2").touch()
    with pytest.raises(ValueError, match=r"no images in .*1.cr2: midfea does not read"):
        write_manifest([str(tmp_path / "empty")], tmp_path / "m.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


def test_without_the_extra_the_line_to_type_is_given(without, tmp_path):
    without("pyarrow")
    result = midfea("manifest", tmp_path, "-o", tmp_path / "m.parquet")
    fails_in_one_line(result, f"a manifest needs pyarrow: {install_line('scale')}")
    without("fsspec", "pyarrow")
    result = midfea("extract", tmp_path, "-o", tmp_path / "f", "--model", "m.midfea")
    fails_in_one_line(result, f"midfea extract needs pyarrow and fsspec: {install_line('scale')}")
    (tmp_path / "m.parquet").write_bytes(b"PAR1")
    result = midfea("predict", "m.midfea", tmp_path / "m.parquet", "-o", tmp_path / "a.csv")
    line = f"a manifest needs pyarrow and fsspec: {install_line('scale')}"
    fails_in_one_line(result, line)
