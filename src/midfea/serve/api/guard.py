"""Which requests are answered: those of the page itself, from this machine.

A page of another website can send requests to this server through the user's browser, and another
website's name can be made to point here (DNS rebinding). So the Host must be ours, the Origin must equal
the Host, and a token is needed where other machines can connect. Bodies are measured and timed while
they arrive (`arriving.py`), by the rules that the routes declare (`body.py`).
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Iterable
from contextlib import nullcontext
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, quote, urlencode

from fastapi import APIRouter
from fastapi.responses import Response
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from midfea.serve.api.arriving import Arriving
from midfea.serve.api.body import JSON_BODY, MEGABYTE, BodyRule, body_rule
from midfea.serve.api.failures import failure
from midfea.serve.api.places import Places
from midfea.serve.settings import ServeSettings

SMALL_BODY_BYTES = MEGABYTE
MAX_LENGTH_DIGITS = 18
MAX_PORT_DIGITS = 5
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
HEADERS = {
    "content-security-policy": (
        "default-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; object-src 'none'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


class Guard:
    """ASGI middleware around an application with these routers.

    `host` and `port` are listened on; no `token` means this machine only.
    """

    def __init__(
        self,
        app: ASGIApp,
        routers: Iterable[APIRouter],
        host: str,
        port: int,
        token: str | None,
        settings: ServeSettings,
    ) -> None:
        self.app, self.routers, self.host, self.port, self.token = app, routers, host, port, token
        self.settings, self._large_bodies = settings, Places(settings.n_large_bodies)
        own = socket.gethostname().lower()  # listening everywhere: by number, or by its own name
        self._own_names = (own, f"{own}.local", socket.getfqdn().lower())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on with the size of its body counted."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request, send = Headers(scope=scope), _with_headers(send)
        foreign = self._foreign(scope, request)
        if foreign is not None:
            await failure(403, foreign)(scope, receive, send)
            return
        if self.token is not None and not self._has_token(request):
            await self._ask_for_token(scope)(scope, receive, send)
            return
        arriving = Arriving(scope, receive, send, self.settings)
        await self._pass_on(scope, request, arriving)
        await arriving.answer_refusal()

    async def _pass_on(self, scope: Scope, request: Headers, arriving: Arriving) -> None:
        """Let the application answer, unless the body is not what its route declares."""
        rule = body_rule(self.routers, scope["method"], scope["path"])
        wrong_type = _wrong_type(rule, scope, request)
        if wrong_type is not None:
            arriving.refusal = 415, wrong_type
            return
        # A form route without a form has no body, or is asked for by a method that needs none.
        is_form = request.get("content-type", "").startswith("multipart/")
        arriving.max_bytes = rule.max_bytes if is_form else JSON_BODY.max_bytes
        sent = request.get("content-length", "0")
        length = int(sent) if sent.isdecimal() and len(sent) <= MAX_LENGTH_DIGITS else 0
        if length > arriving.max_bytes:
            arriving.refuse_size()
            return
        small = arriving.max_bytes == JSON_BODY.max_bytes or 0 < length <= SMALL_BODY_BYTES
        address = (scope.get("client") or ("",))[0]
        try:
            async with nullcontext() if small else self._large_bodies.take(address):
                await self.app(scope, arriving.receive, arriving.send)
        except Exception:
            if arriving.refusal is None:
                raise

    def _foreign(self, scope: Scope, request: Headers) -> str | None:
        """Why a request does not come from the page itself; None if it does."""
        host = request.get("host", "")
        if not self._is_our_host(host):
            return (
                f"this server does not answer to the name {host[:100]!r}: open it by the address that "
                "midfea serve printed"
            )
        own = f"http://{host.lower()}"
        other_origin = request.get("origin", own) != own
        other_site = request.get("sec-fetch-site", "none") not in ("none", "same-origin")
        is_page = scope["method"] == "GET" and scope["path"] == "/"
        visit = is_page and request.get("sec-fetch-mode") == "navigate"
        if other_origin or (other_site and not visit):
            return "a page of another website must not use this server: open it by its own address"
        return None

    def _is_our_host(self, host: str) -> bool:
        name, _, port = host.lower().rpartition(":")
        if not port.isdecimal() or not name:  # a browser leaves out port 80
            name, port = host.lower(), "80"
        if len(port) > MAX_PORT_DIGITS or int(port) != self.port:
            return False
        if name in LOOPBACK or name == in_brackets(self.host.lower()):
            return True
        if self.host not in ("0.0.0.0", "::"):
            return False
        return _is_address(name.strip("[]")) or name in self._own_names

    # -- token ------------------------------------------------------------------------------------

    @property
    def _cookie(self) -> str:
        return f"midfea_{self.port}"  # cookies are shared by all ports of a host

    def _has_token(self, request: Headers) -> bool:
        kind, _, sent = request.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self._is_token(sent.strip()):
            return True
        try:
            cookie = SimpleCookie(request.get("cookie", "")).get(self._cookie)
        except CookieError:
            return False
        return cookie is not None and self._is_token(cookie.value)

    def _is_token(self, sent: str) -> bool:
        return hmac.compare_digest(sent.encode(), (self.token or "").encode())

    def _ask_for_token(self, scope: Scope) -> Response:
        """For a valid `?token=` a cookie and the same address without the token, else a refusal."""
        query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        sent = query.pop("token", [""])[-1]
        if scope["method"] != "GET" or not self._is_token(sent):
            return failure(401, "a token is needed: open the whole address that midfea serve printed")
        rest = urlencode(query, doseq=True)
        # Quoted, and with one slash: a browser takes //, /\\ and /TAB/ for the name of another website.
        location = "/" + quote(scope["path"].lstrip("/")) + (f"?{rest}" if rest else "")
        cookie = f"{self._cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/; Max-Age=31536000"
        return Response(status_code=303, headers={"location": location, "set-cookie": cookie})


def _wrong_type(rule: BodyRule, scope: Scope, request: Headers) -> str | None:
    """What is wrong with the content type of a request that changes something."""
    if scope["method"] not in ("POST", "PUT", "PATCH"):
        return None
    content_type = request.get("content-type", "").partition(";")[0].strip().lower()
    has_body = request.get("content-length", "0") != "0" or "transfer-encoding" in request
    if rule.optional and not has_body and not content_type:
        return None
    if content_type != rule.content_type:
        return f"the content type must be {rule.content_type} here, not {content_type[:100] or 'none'}"
    return None


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def in_brackets(host: str) -> str:
    """A host as it stands in an address: numbers of IPv6 have colons of their own."""
    return f"[{host}]" if ":" in host else host


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending
