"""The `.midfea` model file."""
