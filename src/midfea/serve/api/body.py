"""What the body of a request may be: declared beside each route, read by the guard."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

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


class _RouteRule(NamedTuple):
    methods: frozenset[str]
    path: re.Pattern[str]
    rule: BodyRule


class BodyRules:
    """The rules of all routes."""

    def __init__(self, routers: Iterable[APIRouter]) -> None:
        self._rules = [
            _RouteRule(frozenset(route.methods), route.path_regex, getattr(route.endpoint, RULE))
            for router in routers
            for route in router.routes
            if hasattr(route.endpoint, RULE)
        ]

    def find(self, method: str, path: str) -> BodyRule:
        """The rule of a request; that of JSON if its route declares none."""
        rules = (each.rule for each in self._rules if method in each.methods and each.path.match(path))
        return next(rules, JSON_BODY)
