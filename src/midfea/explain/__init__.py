"""An explanation, `midfea.evidence.Explanation`, as a page (`page`) or as a PNG (`drawing`)."""
