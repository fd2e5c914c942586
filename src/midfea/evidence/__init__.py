"""A decision value traced back to words, descriptors and pixels."""

from midfea.evidence.explanation import Explanation, Nearest, Word, explain

__all__ = ["Explanation", "Nearest", "Word", "explain"]
