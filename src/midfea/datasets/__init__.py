"""Images to learn from: the built-in set, folders of one's own, and the published sets of the paper."""

from midfea.datasets.diagnosis import WrongFolder
from midfea.datasets.fgnet import load_fgnet
from midfea.datasets.folder import Skipped, load_folder
from midfea.datasets.groups import read_groups
from midfea.datasets.official import DatasetError, load_ar, load_caltech101, load_caltech256, load_yale_b
from midfea.datasets.series import Series, suggest_groups
from midfea.datasets.surfaces import load_surfaces

__all__ = [
    "DatasetError",
    "Series",
    "Skipped",
    "WrongFolder",
    "load_ar",
    "load_caltech101",
    "load_caltech256",
    "load_fgnet",
    "load_folder",
    "load_surfaces",
    "load_yale_b",
    "read_groups",
    "suggest_groups",
]
