"""The workspace: a plain folder of images by class, and every change to it.

    images/<class>/<file>    the label is the place
    model.midfea             the model
    .midfea/                 what can be made again: thumbnails, features, results; unfinished files

The folder is the truth. What others put there, move or remove is seen at the next look. An image is
accepted when its file lies whole in its class's folder and both are safe on the disk, not before.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from midfea.serve.errors import Clash, Missing, Refused
from midfea.serve.store import names
from midfea.serve.store.incoming import Incoming, Picture, Readable, decode, fitting_name
from midfea.serve.store.index import (
    FRESH,
    Facts,
    Index,
    Signature,
    StoredImage,
    class_folders,
    listed,
    signature,
)
from midfea.serve.store.lock import Lock

LOOK_AGAIN = 1.0  # s: between two looks at the folders' times of change
LOOK_CLOSELY = 10.0  # s: between two looks at every file's
N_DECODING = 2  # images at once: 60 megapixels decoded take 200 MB


class ClassCount(NamedTuple):
    """A class and how many images it has."""

    name: str
    images: int


class Workspace:
    """A folder of images by class. Threads, and processes, may use it at the same time."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root).resolve()
        self.images_folder = self.root / "images"
        self.hidden = self.root / ".midfea"
        self.model_file = self.root / "model.midfea"
        self.thumbnails = self.hidden / "thumbnails"
        for folder in (self.images_folder, self.thumbnails):
            folder.mkdir(parents=True, exist_ok=True)
        self._mutex = threading.RLock()
        self._looking = threading.Lock()
        self.decoding = threading.BoundedSemaphore(N_DECODING)
        self._index = Index(self.hidden / "index.json")
        self._folders: dict[str, list[StoredImage]] = {}
        self._seen: dict[str, int] = {}  # when a folder had changed last when it was looked at
        self._by_id: dict[str, list[StoredImage]] = {}
        self._sorted: dict[str, tuple[int, list[StoredImage]]] = {}
        self._looked = self._looked_closely = 0.0
        self.version = time.time_ns() // 1_000_000  # grows over restarts too
        with self._between_processes():
            Incoming.sweep(self.hidden / "incoming")
            self.incoming = Incoming(self.hidden / "incoming")
        self.refresh(closely=True)

    def close(self) -> None:
        """Keep what is known of the files for the next start."""
        self.save_index()
        self.incoming.close()

    def save_index(self) -> None:
        """What is known of the files, for other processes."""
        self._index.save(self.incoming.new())

    # -- looking ----------------------------------------------------------------------------------

    def refresh(self, closely: bool = False) -> None:
        """See what others changed; cheap, and done at most once a second unless `closely`."""
        now = time.monotonic()
        closely = closely or now - self._looked_closely > LOOK_CLOSELY
        if not closely and now - self._looked < LOOK_AGAIN:
            return
        if not self._looking.acquire(blocking=closely):
            return  # another thread is at it
        try:
            self._look(closely)
        finally:
            self._looking.release()

    def _look(self, closely: bool) -> None:
        n_read = 0
        for folder in class_folders(self.images_folder):
            if closely or self._has_changed(folder):
                n_read += self._index.read(folder)  # takes long for many files: others go on meanwhile
        with self._mutex:
            folders = class_folders(self.images_folder)
            changed, found = False, set[Signature]()
            for folder in folders:
                if closely or self._has_changed(folder):
                    changed |= self._list(folder, found)
            for gone in set(self._folders) - {folder.name for folder in folders}:
                del self._folders[gone]
                self._seen.pop(gone, None)
                changed = True
            if changed:
                self._reindex()
            self._looked = time.monotonic()
            if closely:
                self._index.forget_others(found)
                self._looked_closely = self._looked
        if n_read > 100:
            self.save_index()

    def _has_changed(self, folder: Path) -> bool:
        try:
            return self._seen.get(folder.name) != folder.stat().st_mtime_ns
        except OSError:
            return True

    def _list(self, folder: Path, found: set[Signature]) -> bool:
        """Take over what lies in a folder; whether that is new. `found` gets the files' signatures."""
        try:
            changed_at = folder.stat().st_mtime_ns
        except OSError:
            return False
        known = folder.name in self._folders
        before = {image.name: image for image in self._folders.get(folder.name, [])}
        images, whole, same = [], time.time_ns() - changed_at > FRESH, True
        for name, status in listed(folder):
            key = signature(status)
            found.add(key)
            facts = self._index.known(key)
            if facts is None:
                whole = False  # came just now: next time
            elif facts.id:
                image, old = _stored(facts, folder.name, name, status), before.get(name)
                same &= image == old
                images.append(image if old is None or image != old else old)
        self._folders[folder.name] = images
        self._seen[folder.name] = changed_at if whole else -1
        return not (known and same and len(images) == len(before))

    def _reindex(self) -> None:
        self._by_id = {}
        for images in self._folders.values():
            for image in images:
                self._by_id.setdefault(image.id, []).append(image)
        self.changed()

    def changed(self) -> None:
        """Something that the page shows is not as it was."""
        with self._mutex:
            self.version += 1

    def classes(self) -> list[ClassCount]:
        """All classes with their numbers of images, by name."""
        with self._mutex:
            counts = [ClassCount(n, len({i.id for i in images})) for n, images in self._folders.items()]
        return sorted(counts, key=lambda count: names.same(count.name))

    def images(self, label: str) -> list[StoredImage]:
        """Those of a class, the newest first, copies once."""
        with self._mutex:
            if label not in self._folders:
                raise Missing(f"there is no class {names.shown(label)}")
            version, images = self._sorted.get(label, (-1, []))
            if version != self.version:
                images = list({image.id: image for image in self._folders[label]}.values())
                images.sort(key=lambda image: (-image.changed, image.name))
                self._sorted = {k: v for k, v in self._sorted.items() if v[0] == self.version}
                self._sorted[label] = self.version, images
            return images

    def all_images(self) -> list[StoredImage]:
        """Every image once, in an order that depends on names only."""
        with self._mutex:
            found = [images[0] for images in self._by_id.values()]
        return sorted(found, key=lambda image: (image.label, image.name))

    def find(self, id: str) -> StoredImage:
        """The image of that id."""
        with self._mutex:
            found = self._by_id.get(id)
        if not found:
            raise Missing("there is no such image in the workspace: it was removed, or never there")
        return found[0]

    def path(self, image: StoredImage) -> Path:
        """Its file."""
        return self.images_folder / image.label / image.name

    def digest(self, images: Sequence[StoredImage] | None = None) -> str:
        """Of these images, or of all: changes with every image and label, and with nothing else."""
        content = hashlib.sha256()
        known = self.all_images() if images is None else images
        for image in sorted(known, key=lambda image: image.id):
            content.update(f"{image.id}\0{image.label}\0".encode())
        return content.hexdigest()

    # -- classes ----------------------------------------------------------------------------------

    def add_class(self, name: str) -> str:
        """A new class without images."""
        name = names.class_name(name)
        with self._changing():
            other = self._same_class(name)
            if other is not None:
                raise Clash(f"there is a class {names.shown(other)} already: choose another name")
            self._make_class(name)
            self.changed()
        return name

    def rename_class(self, old: str, new: str) -> str:
        """The same images under another name: one rename of the folder."""
        new = names.class_name(new)
        with self._changing():
            self._require_class(old)
            other = self._same_class(new)
            if other is not None and other != old:
                raise Clash(f"there is a class {names.shown(other)} already: choose another name")
            if new != old:
                os.rename(self.images_folder / old, self.images_folder / new)
                _safe_on_disk(self.images_folder)
                images = self._folders.pop(old)
                self._seen.pop(old, None)
                self._folders[new] = [_relabelled(image, new, image.name) for image in images]
                self._reindex()
        return new

    def remove_class(self, name: str, with_images: bool = False) -> None:
        """The class; its images only if told so."""
        with self._changing():
            self._require_class(name)
            n_images = len(self._folders[name])
            if n_images and not with_images:
                raise Clash(
                    f"the class {names.shown(name)} has {n_images} images: move them, or remove it "
                    "together with them"
                )
            removed = self.incoming.new()
            os.rename(self.images_folder / name, removed)  # at once, however many images
            _safe_on_disk(self.images_folder)
            del self._folders[name]
            self._seen.pop(name, None)
            self._reindex()
        shutil.rmtree(removed, ignore_errors=True)

    # -- images -----------------------------------------------------------------------------------

    def add(self, label: str, name: str, stream: Readable) -> StoredImage:
        """Take an image into a class, which is made if need be; `Refused` with the reason if not.

        When this returns the image is safe: nothing that happens to the process can lose it.
        """
        label, name = names.class_name(label), names.file_name(name)
        with self.incoming.receive(stream) as received:
            self._check_place(received.id, label)
            picture = self.decode(received.path)
            self._write_thumbnail(received.id, picture)
            with self._changing():
                image = self._check_place(received.id, label)
                if image is None:
                    folder = self._make_class(label)
                    target = _free(folder / fitting_name(name, picture.endings), received.id)
                    os.rename(received.path, target)
                    image = self._took_in(target, Facts(received.id, picture.width, picture.height))
        _safe_on_disk(self.images_folder / label)  # also where another thread put it there just now
        return image

    def move(self, id: str, label: str) -> StoredImage:
        """Give an image another label: one rename of its file. Copies of it are removed."""
        label = names.class_name(label)
        with self._changing():
            first, *copies = self._copies(id)
            if first.label != label:
                self._check_spelling(label)
                folder = self._make_class(label)
                target = _free(folder / first.name, id)
                os.rename(self.path(first), target)
                _safe_on_disk(folder)
                moved = _relabelled(first, label, target.name)
                self._folders[first.label].remove(first)
                self._folders[label].append(moved)
                _safe_on_disk(self.images_folder / first.label)
                first = moved
            for copy in copies:
                self._unlink(copy)
            self._reindex()
        return first

    def remove(self, id: str) -> None:
        """The image and all copies of it."""
        with self._changing():
            for copy in self._copies(id):
                self._unlink(copy)
            self._reindex()
        self.thumbnail_file(id).unlink(missing_ok=True)

    def decode(self, path: Path) -> Picture:
        """Read an image whole; few at a time, so that many requests do not hold many images."""
        with self.decoding:
            return decode(path)

    def thumbnail_file(self, id: str) -> Path:
        """Where the small copy of an image lies, if it has been made."""
        return self.thumbnails / id[:2] / f"{id}.webp"

    def thumbnail(self, id: str) -> bytes:
        """A small copy, as a WebP file."""
        file = self.thumbnail_file(id)
        try:
            return file.read_bytes()
        except FileNotFoundError:
            picture = self.decode(self.path(self.find(id)))
            self._write_thumbnail(id, picture)
            return picture.thumbnail

    def sweep_thumbnails(self) -> None:
        """Remove those of images that are gone."""
        for file in self.thumbnails.glob("*/*.webp"):
            if file.stem not in self._by_id:
                file.unlink(missing_ok=True)

    def replace_model(self, file: Path) -> None:
        """A whole file becomes the model, in one step."""
        with self._changing():
            os.replace(file, self.model_file)
            _safe_on_disk(self.root)

    # -- inside -----------------------------------------------------------------------------------

    @contextmanager
    def _between_processes(self) -> Iterator[None]:
        with Lock(self.hidden / "lock"):
            yield

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Nobody else changes anything meanwhile, no thread and no process."""
        with self._mutex, self._between_processes():
            yield

    def _require_class(self, name: str) -> None:
        if name not in self._folders:
            raise Missing(f"there is no class {names.shown(name)}")

    def _same_class(self, name: str) -> str | None:
        return next((known for known in self._folders if names.same(known) == names.same(name)), None)

    def _check_spelling(self, label: str) -> None:
        other = self._same_class(label)
        if other is not None and other != label:
            raise Clash(
                f"there is a class {names.shown(other)}: {names.shown(label)} differs by case only"
            )

    def _check_place(self, id: str, label: str) -> StoredImage | None:
        """The image if the class has it already; `Clash` if another has it."""
        self._check_spelling(label)
        with self._mutex:
            known = self._by_id.get(id, [])
        for image in known:
            if image.label == label and self.path(image).is_file():
                return image
        for image in known:
            if self.path(image).is_file():
                raise Clash(
                    f"the same image is already in the class {names.shown(image.label)}: move it "
                    "from there"
                )
        return None

    def _make_class(self, name: str) -> Path:
        folder = self.images_folder / name
        self._check_spelling(name)
        try:
            folder.mkdir()
        except FileExistsError:
            if not folder.is_dir():
                raise Refused(f"{names.shown(name)} is a file in the images' folder: move it") from None
        else:
            _safe_on_disk(self.images_folder)
        self._folders.setdefault(name, [])
        return folder

    def _took_in(self, path: Path, facts: Facts) -> StoredImage:
        status = path.stat()
        self._index.note(signature(status), facts)
        image = _stored(facts, sys.intern(path.parent.name), path.name, status)
        self._folders[image.label].append(image)
        self._by_id.setdefault(image.id, []).append(image)
        self.changed()
        return image

    def _copies(self, id: str) -> list[StoredImage]:
        self.find(id)
        there = [image for image in self._by_id[id] if self.path(image).is_file()]
        if not there:
            raise Missing("there is no such image in the workspace: it was removed by hand")
        return there

    def _unlink(self, image: StoredImage) -> None:
        self.path(image).unlink(missing_ok=True)
        _safe_on_disk(self.images_folder / image.label)
        self._folders[image.label].remove(image)

    def _write_thumbnail(self, id: str, picture: Picture) -> None:
        file, temporary = self.thumbnail_file(id), self.incoming.new()
        file.parent.mkdir(exist_ok=True)
        temporary.write_bytes(picture.thumbnail)
        temporary.replace(file)


def _stored(facts: Facts, label: str, name: str, status: os.stat_result) -> StoredImage:
    return StoredImage(facts.id, label, name, facts.width, facts.height, status.st_mtime_ns)


def _relabelled(image: StoredImage, label: str, name: str) -> StoredImage:
    return StoredImage(image.id, label, name, image.width, image.height, image.changed)


def _free(path: Path, id: str) -> Path:
    """The path, or one beside it that no file has."""
    if not path.exists():
        return path
    return path.with_name(f"{path.stem}-{id[:8]}{path.suffix}")


def _safe_on_disk(folder: Path) -> None:
    """What was renamed in a folder stays so whatever happens to the machine."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # the folder is gone, or cannot be opened here (Windows)
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
