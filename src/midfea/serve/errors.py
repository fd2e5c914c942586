"""Requests that cannot be carried out; each message says how to fix it."""

from __future__ import annotations


class Refused(ValueError):
    """The request is invalid; the message says how to fix it."""


class Clash(Refused):
    """The request does not fit the present state, such as a second class of the same name."""


class Missing(Refused):
    """There is no such class or image."""
