"""What MidFea is compared with: hand-made features and raw pixels, each with the same linear SVM."""

from midfea.baselines.feature_svm import FEATURES, FeatureSVM

__all__ = ["FEATURES", "FeatureSVM"]
