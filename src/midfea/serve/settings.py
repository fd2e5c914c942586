"""What the server asks of those who connect, and how long it waits for them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ServeSettings:
    """Limits of the server that no route has for itself.

    Attributes
    ----------
    head_seconds : a connection must send a whole request head in this time
    stall_seconds : a body must go on within this time
    min_bytes_per_second : a body must have on average, once it has been waited for as long
    answer_seconds : some of a long answer must be taken within this time
    n_large_bodies : requests with large bodies at once, half of them from one address; others wait
        unread, so that many do not fill the memory
    trial_seconds : a model from elsewhere must predict two small images in this time
    """

    head_seconds: float = 10.0
    stall_seconds: float = 10.0
    min_bytes_per_second: float = 10_000.0
    answer_seconds: float = 60.0
    n_large_bodies: int = 8
    trial_seconds: float = 20.0


DEFAULTS = ServeSettings()
