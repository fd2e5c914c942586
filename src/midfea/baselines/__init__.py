"""What MidFea is compared with: the systems of the paper's tables, and hand-made features."""

from midfea.baselines.fddl import FDDL
from midfea.baselines.feature_svm import FEATURES, FeatureSVM
from midfea.baselines.kspm import KSPM
from midfea.baselines.lcksvd import LCKSVD
from midfea.baselines.llc import LLC
from midfea.baselines.nbnn import NBNN
from midfea.baselines.pyramid import SpatialPyramid
from midfea.baselines.random_faces import RandomFaces
from midfea.baselines.raw_pixels import RawPixels
from midfea.baselines.scspm import ScSPM
from midfea.baselines.self_taught import SelfTaught
from midfea.baselines.src import SRC
from midfea.baselines.svm_knn import SVMKNN
from midfea.baselines.svm_raw import SVMRaw

__all__ = [
    "FDDL",
    "FEATURES",
    "KSPM",
    "LCKSVD",
    "LLC",
    "NBNN",
    "SRC",
    "SVMKNN",
    "FeatureSVM",
    "RandomFaces",
    "RawPixels",
    "SVMRaw",
    "ScSPM",
    "SelfTaught",
    "SpatialPyramid",
]
