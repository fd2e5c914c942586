"""The index of a workspace's images: by class, by id, and kept up to date with the folder.

The folder is the truth. What other programs put there, move or remove is seen at the next look.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from midfea.serve.errors import Missing
from midfea.serve.store import names
from midfea.serve.store.files import FileIndex, Signature, class_folders, image_files, signature
from midfea.serve.store.incoming import Incoming

LOOK_SECONDS = 1.0  # between two looks at the folders' times of change
CLOSE_LOOK_SECONDS = 10.0  # between two looks at the times of every file
CLOCK_TICK_NS = 1_000_000_000  # a folder changed more recently may change again within one tick
SAVE_AFTER = 100  # files read


@dataclass(frozen=True, slots=True)
class StoredImage:
    """An image of the workspace. The id is the hash of its bytes."""

    id: str
    label: str
    name: str
    width: int
    height: int
    changed_ns: int


class ClassCount(NamedTuple):
    """A class and how many images it has."""

    name: str
    images: int


class ImageIndex:
    """Images by class and id. Threads may use it at the same time.

    `unchanging` is held by whoever changes files, and while folders are listed: a listing never misses
    an image that was accepted before it. Reading the index never waits for it.
    """

    def __init__(
        self, folder: Path, files: FileIndex, incoming: Incoming, unchanging: threading.RLock
    ) -> None:
        self.folder = folder
        self._files, self._incoming, self._unchanging = files, incoming, unchanging
        self._mutex = threading.RLock()
        self._looking = threading.Lock()
        self._folders: dict[str, dict[str, StoredImage]] = {}  # class and file name to image
        self._by_id: dict[str, list[StoredImage]] = {}
        self._listed_at: dict[str, int] = {}  # class to its folder's time of change when it was listed
        self._sorted: dict[str, tuple[int, list[StoredImage]]] = {}
        self._digest = -1, ""  # and the version that it belongs to
        self._looked = self._looked_closely = 0.0
        self.version = time.time_ns() // 1_000_000  # grows over restarts too

    # -- reading ----------------------------------------------------------------------------------

    def classes(self) -> list[ClassCount]:
        """All classes with their numbers of images, by name."""
        with self._mutex:
            counts = [
                ClassCount(name, len({image.id for image in images.values()}))
                for name, images in self._folders.items()
            ]
        return sorted(counts, key=lambda count: names.folded(count.name))

    def has_class(self, name: str) -> bool:
        """Whether there is a class of exactly this name."""
        return name in self._folders

    def same_class(self, name: str) -> str | None:
        """The class whose name some file systems cannot tell from this one."""
        with self._mutex:
            return next(
                (each for each in self._folders if names.folded(each) == names.folded(name)), None
            )

    def of_class(self, label: str) -> list[StoredImage]:
        """The images of a class, the newest first; of duplicates one."""
        with self._mutex:
            if label not in self._folders:
                raise Missing(f"there is no class {names.quoted(label)}")
            version, images = self._sorted.get(label, (-1, []))
            if version != self.version:
                images = list({image.id: image for image in self._folders[label].values()}.values())
                images.sort(key=lambda image: (-image.changed_ns, image.name))
                self._sorted = {k: v for k, v in self._sorted.items() if v[0] == self.version}
                self._sorted[label] = self.version, images
            return images

    def files_of_class(self, label: str) -> int:
        """How many files a class has, duplicates counted."""
        return len(self._folders[label])

    def all(self) -> list[StoredImage]:
        """Every image once, in an order that depends on names only."""
        with self._mutex:
            images = [same[0] for same in self._by_id.values()]
        return sorted(images, key=lambda image: (image.label, image.name))

    def find(self, id: str) -> StoredImage:
        """The image of this id."""
        return self.duplicates(id)[0]

    def duplicates(self, id: str) -> list[StoredImage]:
        """All files with the content of this id."""
        with self._mutex:
            images = list(self._by_id.get(id, ()))
        if not images:
            raise Missing("there is no such image in the workspace: it was removed, or never there")
        return images

    def __contains__(self, id: str) -> bool:
        return id in self._by_id

    def path(self, image: StoredImage) -> Path:
        """The image's file."""
        return self.folder / image.label / image.name

    def digest(self) -> str:
        """A hash of all images and their labels."""
        version, digest = self._digest
        if version != self.version:
            version = self.version
            digest = digest_of(self.all())
            self._digest = version, digest
        return digest

    # -- noting changes that were made ------------------------------------------------------------

    def touch(self) -> None:
        """Something that the page shows has changed."""
        with self._mutex:
            self.version += 1

    def note_class(self, name: str) -> None:
        """A class was made."""
        with self._mutex:
            if name not in self._folders:
                self._folders[name] = {}
                self.touch()

    def note(self, image: StoredImage) -> None:
        """An image was put into the folder of its class."""
        with self._mutex:
            self._folders.setdefault(image.label, {})[image.name] = image
            self._by_id.setdefault(image.id, []).append(image)
            self.touch()

    def forget(self, image: StoredImage) -> None:
        """An image was removed from the folder of its class."""
        with self._mutex:
            self._folders[image.label].pop(image.name, None)
            same = self._by_id[image.id]
            same.remove(image)
            if not same:
                del self._by_id[image.id]
            self.touch()

    def rename_class(self, old: str, new: str) -> None:
        """The folder of a class was renamed."""
        with self._mutex:
            images = self._folders.pop(old)
            self._listed_at.pop(old, None)
            self._folders[new] = {name: replace(image, label=new) for name, image in images.items()}
            self._index_ids()

    def forget_class(self, name: str) -> None:
        """The folder of a class was removed."""
        with self._mutex:
            del self._folders[name]
            self._listed_at.pop(name, None)
            self._index_ids()

    # -- looking at the folder --------------------------------------------------------------------

    def refresh(self, closely: bool = False, max_age: float = LOOK_SECONDS) -> None:
        """See what other programs changed, unless the last look is at most `max_age` seconds old.

        closely : also see files that were changed in their place
        """
        now = time.monotonic()
        closely = closely or now - self._looked_closely > CLOSE_LOOK_SECONDS
        if not closely and now - self._looked < max_age:
            return
        if not self._looking.acquire(blocking=closely):
            return  # another thread does it
        try:
            self._look(closely)
        finally:
            self._looking.release()

    def save(self) -> None:
        """Write what is known of the files, for other processes and the next start."""
        self._files.save(self._incoming.new())

    def _look(self, closely: bool) -> None:
        n_read = 0
        for folder in class_folders(self.folder):
            if closely or self._has_changed(folder):
                n_read += self._files.read(folder)  # slow for many files: nobody waits for it
        keys = set[Signature]()
        with self._unchanging:
            folders = class_folders(self.folder)
            listings = {
                folder.name: self._list(folder, keys)
                for folder in folders
                if closely or self._has_changed(folder)
            }
            with self._mutex:
                removed = set(self._folders) - {folder.name for folder in folders}
                if removed or any(images != self._folders.get(k) for k, images in listings.items()):
                    self._folders |= listings
                    for name in removed:
                        del self._folders[name]
                        self._listed_at.pop(name, None)
                    self._index_ids()
            self._looked = time.monotonic()
            if closely:
                self._files.keep_only(keys)
                self._looked_closely = self._looked
        if n_read > SAVE_AFTER:
            self.save()

    def _has_changed(self, folder: Path) -> bool:
        try:
            return self._listed_at.get(folder.name) != folder.stat().st_mtime_ns
        except OSError:
            return True

    def _list(self, folder: Path, keys: set[Signature]) -> dict[str, StoredImage]:
        """The images of a class's folder; their files' signatures are added to `keys`."""
        try:
            changed_ns = folder.stat().st_mtime_ns
        except OSError:
            return {}
        images, complete = {}, time.time_ns() - changed_ns > CLOCK_TICK_NS
        for name, status in image_files(folder):
            key = signature(status)
            keys.add(key)
            facts = self._files.get(key)
            if facts is None:
                complete = False  # it came just now: read at the next look
            elif facts.id:
                images[name] = StoredImage(
                    facts.id, folder.name, name, facts.width, facts.height, status.st_mtime_ns
                )
        self._listed_at[folder.name] = changed_ns if complete else -1
        return images

    def _index_ids(self) -> None:
        self._by_id = {}
        for images in self._folders.values():
            for image in images.values():
                self._by_id.setdefault(image.id, []).append(image)
        self.touch()


def digest_of(images: Iterable[StoredImage]) -> str:
    """A hash of images and their labels, whatever their order."""
    content = hashlib.sha256()
    for image in sorted(images, key=lambda image: image.id):
        content.update(f"{image.id}\0{image.label}\0".encode())
    return content.hexdigest()
