"""What the page shows at the top, and asks for again and again."""

from __future__ import annotations

from typing import Any

from midfea.serve.api import guard
from midfea.serve.api.answering import THRESHOLD
from midfea.serve.api.current import CurrentModel
from midfea.serve.store import incoming, names
from midfea.serve.store.workspace import Workspace
from midfea.serve.training.trainer import Trainer

LIMITS = {
    "file_bytes": incoming.MOST_BYTES,
    "request_bytes": guard.FORM_BYTES,
    "zip_bytes": guard.LARGER["/api/open/images"],
    "model_bytes": guard.LARGER["/api/open/model"],
    "pixels": incoming.MOST_PIXELS,
    "name_characters": names.MOST_CHARACTERS,
}


class State:
    """Of a workspace, its model and its training."""

    def __init__(self, workspace: Workspace, current: CurrentModel, trainer: Trainer) -> None:
        self.workspace, self.current, self.trainer = workspace, current, trainer
        self._digest: tuple[int, str] = (-1, "")

    def shown(self) -> dict[str, Any]:
        """As JSON knows it."""
        self.workspace.refresh()
        job = self.trainer.progress  # before the model: when it says done, the model is the new one
        job_shown = None if job is None else job.shown()
        model = self._model()
        classes = self.workspace.classes()
        return {
            "version": self.workspace.version,
            "classes": [count._asdict() for count in classes],
            "images": sum(count.images for count in classes),
            "model": model,
            "model_error": self.current.problem(),
            "job": job_shown,
            "workspace": str(self.workspace.root),
            "limits": LIMITS,
            "threshold": THRESHOLD,
        }

    def _model(self) -> dict[str, Any] | None:
        current = self.current.get()
        if current is None:
            return None
        about = current.results.about
        settings = about.get("settings", {})
        return {
            "id": current.id,
            "name": about["name"],
            "trained": about["trained"],
            "classes": [str(name) for name in current.model.classes_],
            "images": about.get("images"),
            "left_out": about.get("left_out", 0),
            "seconds": about.get("seconds"),
            "accuracy": about.get("accuracy"),
            "ms_per_image": about.get("ms_per_image"),
            "stale": not about["opened"] and about["digest"] != self._labels(),
            "preset": settings.get("preset", current.model.preset),
            "neurons": settings.get("neurons", 0),
            "finetune": settings.get("finetune", False),
            "opened": about["opened"],
        }

    def _labels(self) -> str:
        """The digest of all images and labels, kept until something changes."""
        version, digest = self._digest
        if version != self.workspace.version:
            version = self.workspace.version
            digest = self.workspace.digest()
            self._digest = version, digest
        return digest
