"""Where in an image the evidence for a classifier's answer lies, and what else led to it.

`trace` goes from weights on the pooled codes to the descriptors they are from, `spread` from descriptors
to pixels, `linear` says what the weights are. `page` and `picture` show the result.
"""

from midfea.evidence.explanation import Explanation, Nearest, Word, explain
from midfea.evidence.linear import Neurons

__all__ = ["Explanation", "Nearest", "Neurons", "Word", "explain"]
