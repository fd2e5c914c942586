"""The workspace: a plain folder of images by class, and the parts that read and change it.

images/<class>/<file>    the folder of an image is its label
model.midfea             the model
notes.json               labels that a person has checked, former names of files
.midfea/                 what can be made again: thumbnails, features, results; unfinished files
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from midfea.files import ENDING
from midfea.serve.store.changes import Changes, WriteLock
from midfea.serve.store.files import FileIndex
from midfea.serve.store.folder_watch import FolderWatch
from midfea.serve.store.images import ImageIndex
from midfea.serve.store.incoming import Incoming
from midfea.serve.store.model_file import ModelFile
from midfea.serve.store.notes import Notes
from midfea.serve.store.thumbnails import Thumbnails


class Workspace:
    """The parts of one workspace. Threads, and processes, may use it at the same time.

    images : which images there are, by class and id
    watch : sees what other programs change in the folder
    changes : adds, moves and removes images and classes
    thumbnails, model_file : of the images, of the workspace
    first_look : the quick model that was trained before the present one
    notes : labels that a person has checked
    incoming : unfinished files
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root).resolve()
        hidden = self.root / ".midfea"
        for folder in (self.root / "images", hidden):
            folder.mkdir(parents=True, exist_ok=True)
        _check_links(hidden, self.root / "images", self.root / "notes.json")
        self.features_folder, self.results_folder = hidden / "features", hidden / "results"
        self.training_lock = hidden / "training.lock"
        lock = WriteLock(hidden / "lock")
        self._lock = lock
        with lock():
            Incoming.sweep(hidden / "incoming")
            self.incoming = Incoming(hidden / "incoming")
        files = FileIndex(hidden / "index.json")
        self.images = ImageIndex(self.root / "images")
        self.watch = FolderWatch(self.images, files, self.incoming, lock.threads)
        self.thumbnails = Thumbnails(hidden / "thumbnails", self.images, self.incoming)
        self.notes = Notes(self.root / "notes.json")
        self.changes = Changes(self.images, files, self.thumbnails, self.incoming, self.notes, lock)
        self.model_file = ModelFile(self.root / "model.midfea", lock)
        self.first_look = ModelFile(hidden / "first-look.midfea", lock)
        self.watch.refresh(closely=True)

    def sweep(self) -> None:
        """Remove thumbnails of images that are gone, and what killed processes left unfinished."""
        self.thumbnails.sweep()
        with suppress(Timeout), FileLock(self.training_lock, blocking=False):  # else it is being written
            for folder in (self.features_folder, self.results_folder):
                for file in folder.rglob(f"*{ENDING}"):
                    file.unlink(missing_ok=True)

    def close(self) -> None:
        """Keep what is known of the files for the next start, and leave nothing unfinished."""
        self.watch.save()
        self.incoming.close()
        with self._lock():
            Incoming.sweep(self.incoming.folder.parent)  # of a training that was ended


def _check_links(hidden: Path, *others: Path) -> None:
    """ValueError for a link where the workspace writes or removes: that would happen elsewhere."""
    inside = (Path(at, name) for at, *names in os.walk(hidden) for each in names for name in each)
    for path in (hidden, *others, *inside):
        if path.is_symlink():
            raise ValueError(f"{path} is a link, which could lead anywhere: remove it, and start again")
