"""What the server asks of those who connect, and how long it waits for them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ServeSettings:
    """Limits of the server that no route has for itself.

    Attributes
    ----------
    trial_seconds : a model from elsewhere must predict two small images in this time
    """

    trial_seconds: float = 20.0


DEFAULTS = ServeSettings()
