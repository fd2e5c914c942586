"""Changes of the workspace's images and classes on the disk.

An image is accepted when its file lies whole in the folder of its class and both are safe on the disk.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path

from filelock import FileLock

from midfea.files import sync_folder
from midfea.serve.errors import Clash, Missing, Refused
from midfea.serve.store import names
from midfea.serve.store.decoding import decode_image, name_with_ending
from midfea.serve.store.files import FileFacts, FileIndex, signature
from midfea.serve.store.images import ImageIndex, StoredImage
from midfea.serve.store.incoming import Incoming, Readable
from midfea.serve.store.notes import Notes
from midfea.serve.store.thumbnails import Thumbnails

POLL_SECONDS = 0.01  # while another process holds the lock


class WriteLock:
    """Held while files are changed: by one thread of one process at a time."""

    def __init__(self, path: Path) -> None:
        self.threads = threading.RLock()
        self._processes = FileLock(path, poll_interval=POLL_SECONDS)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Hold the lock within a `with` block."""
        with self.threads, self._processes:
            yield


@dataclass(frozen=True, eq=False)
class Changes:
    """Adds, moves and removes images and classes, on the disk and in the index."""

    _images: ImageIndex
    _files: FileIndex
    _thumbnails: Thumbnails
    _incoming: Incoming
    _notes: Notes
    _lock: WriteLock

    # -- classes ----------------------------------------------------------------------------------

    def add_class(self, name: str) -> str:
        """Make a class without images."""
        name = names.class_name(name)
        with self._lock():
            self._check_unused(name)
            self._make_class(name)
        return name

    def rename_class(self, old: str, new: str) -> str:
        """Rename a class, and so the label of its images: one rename of the folder."""
        new = names.class_name(new)
        with self._lock():
            self._require_class(old)
            self._check_unused(new, except_for=old)
            if new != old:
                os.rename(self._images.folder / old, self._images.folder / new)
                sync_folder(self._images.folder)
                self._images.rename_class(old, new)
        return new

    def remove_class(self, name: str, with_images: bool = False) -> None:
        """Remove a class; one that has images only if `with_images`."""
        with self._lock():
            self._require_class(name)
            n_images = self._images.files_of_class(name)
            if n_images and not with_images:
                raise Clash(
                    f"the class {names.quoted(name)} has {n_images} images: move them, or remove it "
                    "together with them"
                )
            removed = self._incoming.new()
            os.rename(self._images.folder / name, removed)  # one step, however many images
            sync_folder(self._images.folder)
            self._images.forget_class(name)
        shutil.rmtree(removed, ignore_errors=True)

    # -- images -----------------------------------------------------------------------------------

    def add(self, label: str, name: str, stream: Readable) -> StoredImage:
        """Add an image to a class, which is made if it is missing; `Refused` with the reason if not.

        When this returns the image is safe: it survives the end of the process and of the machine.
        """
        label, name = names.class_name(label), names.file_name(name)
        with self._incoming.receive(stream) as received:
            self._accepted(received.id, label)
            decoded = decode_image(received.path)
            self._thumbnails.write(received.id, decoded.thumbnail)
            with self._lock():
                image = self._accepted(received.id, label)
                if image is None:
                    folder = self._make_class(label)
                    target = _unused_path(folder / name_with_ending(name, decoded.format), received.id)
                    os.rename(received.path, target)
                    image = self._note(target, FileFacts(received.id, decoded.width, decoded.height))
        sync_folder(self._images.folder / label)  # also if another thread has just put it there
        return image

    def move(self, id: str, label: str) -> StoredImage:
        """Move an image to another class: one rename of its file. Its duplicates are removed.

        Where its name is taken it gets another one, and its own again as soon as that is free.
        """
        label = names.class_name(label)
        with self._lock():
            image, *duplicates = self._present(id)
            if image.label != label:
                self._check_spelling(label)
                folder = self._make_class(label)
                own = self._notes.own_name(id, image.name)
                target = _unused_path(folder / own, id)
                self._notes.set_own_name(id, target.name, own)  # first: a rename can be repeated
                os.rename(self._images.path(image), target)
                sync_folder(folder)
                sync_folder(self._images.folder / image.label)
                moved = replace(image, label=label, name=target.name)
                self._images.note(moved)
                self._images.forget(image)
                image = moved
            for duplicate in duplicates:
                self._unlink(duplicate)
        return image

    def set_checked(self, id: str, checked: bool) -> None:
        """Remember whether a person has called the label of an image right."""
        with self._lock():
            self._present(id)
            self._notes.set_checked(id, checked)
        self._images.touch()

    def remove(self, id: str) -> None:
        """Remove an image and its duplicates."""
        with self._lock():
            for image in self._present(id):
                self._unlink(image)
        self._thumbnails.remove(id)

    # -- checks and steps -------------------------------------------------------------------------

    def _require_class(self, name: str) -> None:
        if not self._images.has_class(name):
            raise Missing(f"there is no class {names.quoted(name)}")

    def _check_unused(self, name: str, except_for: str | None = None) -> None:
        other = self._images.same_class(name)
        if other is not None and other != except_for:
            raise Clash(f"there is a class {names.quoted(other)} already: choose another name")

    def _check_spelling(self, label: str) -> None:
        other = self._images.same_class(label)
        if other is not None and other != label:
            raise Clash(
                f"there is a class {names.quoted(other)}: {names.quoted(label)} differs by case only"
            )

    def _accepted(self, id: str, label: str) -> StoredImage | None:
        """The image if the class has it already; `Clash` if another class has it."""
        self._check_spelling(label)
        try:
            present = self._present(id)
        except Missing:
            return None
        for image in present:
            if image.label == label:
                return image
        raise Clash(
            f"the same image is already in the class {names.quoted(present[0].label)}: move it "
            "from there"
        )

    def _present(self, id: str) -> list[StoredImage]:
        """The files with this content that have not been removed by hand."""
        images = [i for i in self._images.duplicates(id) if self._images.path(i).is_file()]
        if not images:
            raise Missing("there is no such image in the workspace: it was removed by hand")
        return images

    def _make_class(self, name: str) -> Path:
        folder = self._images.folder / name
        self._check_spelling(name)
        try:
            folder.mkdir()
        except FileExistsError:
            if folder.is_symlink() or not folder.is_dir():
                raise Refused(
                    f"{names.quoted(name)} is a file or a link in the images' folder: move it"
                ) from None
        else:
            sync_folder(self._images.folder)
        self._images.note_class(name)
        return folder

    def _note(self, path: Path, facts: FileFacts) -> StoredImage:
        status = path.stat()
        self._files.note(signature(status), facts)
        label, name = path.parent.name, path.name
        image = StoredImage(facts.id, label, name, facts.width, facts.height, status.st_mtime_ns)
        self._images.note(image)
        return image

    def _unlink(self, image: StoredImage) -> None:
        self._images.path(image).unlink(missing_ok=True)
        sync_folder(self._images.folder / image.label)
        self._images.forget(image)


def _unused_path(path: Path, id: str) -> Path:
    """The path, or one beside it that no file has."""
    start = f"{path.stem}-{id[:8]}"
    others = (f"{start}{end}{path.suffix}" for end in chain([""], (f"-{n}" for n in count(2))))
    tries = chain([path], map(path.with_name, others))
    return next(each for each in tries if not os.path.lexists(each))
