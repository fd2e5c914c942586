"""What can go wrong in a way that the user can mend; the message says how."""

from __future__ import annotations


class Refused(ValueError):
    """Not to be done as it was asked."""


class Clash(Refused):
    """Not to be done in the present state of things, such as two classes of one name."""


class Missing(Refused):
    """There is no such class or image."""
