"""`NetworkSettings`: shape and training budget of the network head."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NetworkSettings:
    """How the network head is made and trained.

    Attributes
    ----------
    n_filters, n_words : of the chain that it begins as
    widths : maps of its five convolution layers from the pixels
    unsupervised_start : begin with the filters and words learned without labels; else with noise
    pixel_layers : have the layers from the pixels; else codes alone
    min_images_seen, images_seen_per_image : augmented images seen in training, at least in all and for
        each training image. A trial sees a quarter of them.
    max_budget_factor : with few images of a class up to so many times more are seen
    aligned_budget_factor : of the budget where descriptors are taken at every place, which takes longer
    batch_size, learning_rate, dropout : of the training
    shift, scale, rotation : how far augmented images are moved: share of the side, logarithm of the
        size, degrees
    shading : lit from a side: the logarithm of the brightness changes by this much to a border
    lighting : logarithm of contrast and strength of colours; brightness by a quarter of it
    view_shift : pixels by which an image is also looked at shifted, in prediction; 0: one view
    mirror_candidates : whether mirrored images are seen in training: what is tried
    min_mirror_gain : log-likelihood, of all validation images, that mirrored images must gain
    min_validation_images : below this each fold is held out in its turn, not one alone
    images_per_class_for_changes : images of a class that are fewer are changed more
    images_per_class_for_colour : with fewer images of a class the network sees them in grey
    """

    n_filters: int = 16
    n_words: int = 256
    widths: tuple[int, int, int, int, int] = (32, 64, 128, 128, 256)
    unsupervised_start: bool = True
    pixel_layers: bool = True
    min_images_seen: int = 32_000
    images_seen_per_image: int = 16
    max_budget_factor: float = 2.0
    aligned_budget_factor: float = 0.7
    batch_size: int = 64
    learning_rate: float = 5e-3
    dropout: float = 0.3
    shift: float = 0.1
    scale: float = 0.15
    rotation: float = 10.0
    shading: float = 0.5
    lighting: float = 0.5
    view_shift: int = 2
    mirror_candidates: tuple[bool, ...] = (False, True)
    min_mirror_gain: float = 3.0
    n_folds: int = 4
    min_validation_images: int = 20
    images_per_class_for_changes: int = 6
    images_per_class_for_colour: int = 3

    def change(self, per_class: float) -> float:
        """How much augmented images are changed: 3 for one image of a class, 1 for many."""
        return min(max(self.images_per_class_for_changes / per_class, 1.0), 3.0)

    def images_seen(self, n_images: int, per_class: float, aligned: bool = False) -> int:
        """How many augmented images the network sees in training."""
        more = min(self.change(per_class), self.max_budget_factor)
        budget = max(self.images_seen_per_image * n_images, round(self.min_images_seen * more))
        return round((self.aligned_budget_factor if aligned else 1.0) * budget)

    def images_seen_in_trial(self, n_images: int, aligned: bool = False) -> int:
        """How many it sees in a trial, of which there is one for each candidate."""
        whole = self.images_seen(n_images, self.images_per_class_for_changes, aligned)
        return round(whole / 2 / len(self.mirror_candidates))
