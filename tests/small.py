"""Settings of models that are fitted at once, for tests of what is done with a model."""

from midfea.learning.network.settings import NetworkSettings

SMALL = {
    "n_filters": 4,
    "n_words": 20,
    "n_components": 40,
    "n_samples": 600,
    "random_state": 0,
    "n_jobs": 1,
}

# A network that is trained in a second or two and learns next to nothing.
FEW_STEPS = NetworkSettings(min_images_seen=192, images_seen_per_image=1, n_words=40, batch_size=16)
