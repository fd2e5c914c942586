"""What the body of a request may be: declared beside each route, read by the guard."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

from fastapi import APIRouter

MEGABYTE = 1_000_000
RULE = "body_rule"  # attribute of a route's function
Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


@dataclass(frozen=True)
class BodyRule:
    """The content type of a body and its largest size; `optional`: it may be left out."""

    content_type: str
    max_bytes: int
    optional: bool = False

    def __call__(self, endpoint: Endpoint) -> Endpoint:
        """As a decorator: the rule of this route."""
        setattr(endpoint, RULE, self)
        return endpoint


JSON_BODY = BodyRule("application/json", 100_000)


def form_body(max_bytes: int, optional: bool = False) -> BodyRule:
    """A form with files."""
    return BodyRule("multipart/form-data", max_bytes, optional)


def body_rule(routers: Iterable[APIRouter], method: str, path: str) -> BodyRule:
    """The rule of a request; that of JSON if its route declares none."""
    for route in chain.from_iterable(router.routes for router in routers):
        if method in route.methods and route.path_regex.match(path):
            return getattr(route.endpoint, RULE, JSON_BODY)
    return JSON_BODY
