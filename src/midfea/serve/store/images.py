"""The index of a workspace's images: by class and by id."""

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
    """Images by class and id. Threads may use it at the same time; reading never waits for the disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._mutex = threading.RLock()
        self._folders: dict[str, dict[str, StoredImage]] = {}  # class and file name to image
        self._by_id: dict[str, list[StoredImage]] = {}
        self._sorted: dict[str, tuple[int, list[StoredImage]]] = {}
        self._digest = -1, ""  # and the version that it belongs to
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

    def present(self, ids: Iterable[str]) -> dict[str, StoredImage]:
        """By id, those of the images that are still there."""
        with self._mutex:
            return {id: self._by_id[id][0] for id in ids if id in self._by_id}

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
            self._folders[new] = {name: replace(image, label=new) for name, image in images.items()}
            self._index_ids()

    def forget_class(self, name: str) -> None:
        """The folder of a class was removed."""
        with self._mutex:
            del self._folders[name]
            self._index_ids()

    def take_listing(self, listing: dict[str, dict[str, StoredImage]], classes: set[str]) -> None:
        """The folders of some classes were listed anew; `classes` are all that there are."""
        with self._mutex:
            removed = set(self._folders) - classes
            if removed or any(images != self._folders.get(name) for name, images in listing.items()):
                self._folders |= listing
                for name in removed:
                    del self._folders[name]
                self._index_ids()

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
