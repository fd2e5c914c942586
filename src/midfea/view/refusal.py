"""What is said of images of none of the classes, in report, explanation and command."""

from __future__ import annotations

from midfea.learning.refusal import SHARES, Refusal
from midfea.view.markup import text


def belonging_words(belonging: float) -> str:
    """How much an image looks like images of the classes."""
    if belonging >= 0.995:
        return "it looks as much like the classes as their own images do"
    share = f"{100 * belonging:.1f}" if belonging < 0.1 else f"{100 * belonging:.0f}"
    return f"of 100 images of the classes {share} look as little like them, or less"


def refusal_text(refusal: Refusal) -> str:
    """How well images of other things are refused, for the report."""
    sentences = [
        f"With {share:.0%} of the classes' own images refused wrongly, "
        f"<b>{found:.0%}</b> of the images left out are refused."
        for share, found in zip(SHARES, refusal.refused, strict=True)
    ]
    return (
        "<p>Models were trained without some of the classes, all of which were left out in turn, and "
        f"shown their {refusal.n_images:,} images. {' '.join(sentences)}</p>"
        f"<p class='key'>{text(meaning(refusal))}</p>"
    )


def meaning(refusal: Refusal) -> str:
    """What the area under the curve means, in words."""
    return (
        f"An image of a class looks more like the classes than an image left out in {refusal.area:.0%} "
        "of the pairs (50 %: by chance). Classes that are alike are the hardest case: images of quite "
        "different things are refused more often. This is the linear classifier without a network."
    )
