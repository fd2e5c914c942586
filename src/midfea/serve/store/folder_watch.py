"""Keeping the index of images up to date with the folder.

The folder is the truth. What other programs put there, move or remove is seen at the next look.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

from midfea.serve.store.files import FileIndex, Signature, class_folders, image_files, signature
from midfea.serve.store.images import ImageIndex, StoredImage
from midfea.serve.store.incoming import Incoming

LOOK_SECONDS = 1.0  # between two looks at the folders' times of change
CLOSE_LOOK_SECONDS = 10.0  # between two looks at the times of every file
CLOCK_TICK_NS = 1_000_000_000  # a folder changed more recently may change again within one tick
SAVE_AFTER = 100  # files read


class FolderWatch:
    """Lists the folders of classes that have changed.

    `unchanging` is held while folders are listed, and by whoever changes files: a listing never misses
    an image that was accepted before it.
    """

    def __init__(
        self, images: ImageIndex, files: FileIndex, incoming: Incoming, unchanging: threading.RLock
    ) -> None:
        self._images, self._files, self._incoming = images, files, incoming
        self._unchanging, self._looking = unchanging, threading.Lock()
        self._listed_at: dict[str, int] = {}  # class to its folder's time of change when it was listed
        self._looked = self._looked_closely = 0.0

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
        for folder in class_folders(self._images.folder):
            if closely or self._has_changed(folder):
                n_read += self._files.read(folder)  # slow for many files: nobody waits for it
        keys = set[Signature]()
        with self._unchanging:
            folders = class_folders(self._images.folder)
            listings = {
                folder.name: self._list(folder, keys)
                for folder in folders
                if closely or self._has_changed(folder)
            }
            self._images.take_listing(listings, {folder.name for folder in folders})
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
