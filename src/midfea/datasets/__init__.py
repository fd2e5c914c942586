"""Images to learn from: the built-in set, and folders with one folder for each class."""

from midfea.datasets.folder import Skipped, load_folder
from midfea.datasets.surfaces import load_surfaces

__all__ = ["Skipped", "load_folder", "load_surfaces"]
