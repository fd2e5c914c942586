"""scikit-learn estimators on top of the engines: images in, features, labels or numbers out."""
