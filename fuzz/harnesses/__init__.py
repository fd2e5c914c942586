"""One small file for each harness: `case(random)` tries one input; what it raises is a finding."""
