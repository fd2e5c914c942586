"""Thumbnails of the workspace's images, by id. They can be made again at any time."""

from __future__ import annotations

from pathlib import Path

from midfea.serve.errors import Missing
from midfea.serve.store.decoding import decode_image
from midfea.serve.store.files import is_id
from midfea.serve.store.images import ImageIndex
from midfea.serve.store.incoming import Incoming


class Thumbnails:
    """A folder of WebP files."""

    def __init__(self, folder: Path, images: ImageIndex, incoming: Incoming) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self._images, self._incoming = folder, images, incoming

    def file(self, id: str) -> Path:
        """Where the thumbnail of an image lies once it has been made."""
        if not is_id(id):
            raise Missing("there is no such image in the workspace: it was removed, or never there")
        return self.folder / id[:2] / f"{id}.webp"

    def get(self, id: str) -> bytes:
        """The thumbnail of an image, as a WebP file."""
        return self.kept(id) or self.make(id)

    def kept(self, id: str) -> bytes | None:
        """The thumbnail that was made before, or None."""
        try:
            return self.file(id).read_bytes()
        except FileNotFoundError:
            return None

    def make(self, id: str) -> bytes:
        """The thumbnail of an image, made anew."""
        made = decode_image(self._images.path(self._images.find(id))).thumbnail
        self.write(id, made)
        return made

    def write(self, id: str, content: bytes) -> None:
        """Keep the thumbnail of an image."""
        file, temporary = self.file(id), self._incoming.new()
        file.parent.mkdir(exist_ok=True)
        temporary.write_bytes(content)
        temporary.replace(file)

    def remove(self, id: str) -> None:
        """Remove the thumbnail of an image, if there is one."""
        self.file(id).unlink(missing_ok=True)

    def sweep(self) -> None:
        """Remove the thumbnails of images that are gone."""
        for file in self.folder.glob("*/*.webp"):
            if file.stem not in self._images:
                file.unlink(missing_ok=True)
