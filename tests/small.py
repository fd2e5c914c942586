"""Settings of models that are fitted in a moment."""

from midfea.learning.network.settings import NetworkSettings

# For tests of what is done with a model; how good it is does not matter.
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
# Good enough to classify the drawn surfaces.
SMALL_PAPER = {"n_words": 40, "n_samples": 3000, "n_components": 100, "random_state": 0}
SMALL_FAST = {"preset": "fast", "n_words": 40, "n_samples": 3000, "random_state": 0}
