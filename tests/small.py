"""Settings of models that are fitted at once, for tests of what is done with a model."""

SMALL = {
    "n_filters": 4,
    "n_words": 20,
    "n_components": 40,
    "n_samples": 600,
    "random_state": 0,
    "n_jobs": 1,
}
