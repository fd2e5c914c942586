"""The routes of the teach page."""
