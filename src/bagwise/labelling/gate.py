"""Who is let in: one browser page that knows the token. Everything else is turned away before it is looked at.

The page listens on this machine only, but any web page that a browser has open could send requests here. Hence a token
in the address, and two checks: Host must be ours (a foreign name that resolves to 127.0.0.1 is not), and a request that
names an Origin must come from our own page.
"""

import ipaddress
import secrets
import socket
from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bagwise.exceptions import BagDataError

_EVERY_ADDRESS = ("0.0.0.0", "::")
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
LONGEST_BODY = 65536  # bytes of a request


def new_token() -> str:
    """What the address holds, and nobody can guess."""
    return secrets.token_urlsafe(18)


def check_interface(host: str, allow_others: bool) -> None:
    """Refuse an interface that other machines can reach, unless it was asked for twice."""
    if not is_loopback(host) and not allow_others:
        raise BagDataError(
            f"--host {host}: other machines could reach the page and read your data, without encryption. Leave --host "
            "out, or add --allow-other-machines if you want that."
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def allowed_hosts(host: str, port: int) -> frozenset[str]:
    """What may stand in the Host header."""
    names = {host}
    if is_loopback(host):
        names |= {"127.0.0.1", "localhost", "::1"}
    elif host in _EVERY_ADDRESS:
        names = {"127.0.0.1", "localhost", socket.gethostname(), *_own_addresses()}
    return frozenset(f"[{name}]:{port}" if ":" in name else f"{name}:{port}" for name in names)


def _own_addresses() -> Iterable[str]:
    try:
        found = socket.getaddrinfo(socket.gethostname(), None)
    except OSError:
        return ()
    return {str(entry[4][0]) for entry in found}


class Gate:
    """Lets requests to ``/TOKEN/…`` through that pass the checks, and puts headers on every answer."""

    def __init__(self, app: ASGIApp, token: str, hosts: frozenset[str]) -> None:
        self._app, self._token, self._hosts = app, token, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.encode(), text.encode()) for name, text in _HEADERS.items()]
                message["headers"] = [*message.get("headers", ()), *own]
            await send(message)

        refusal = self._refusal(scope, Headers(scope=scope))
        await (refusal or self._app)(scope, receive, with_headers)

    def _refusal(self, scope: Scope, headers: Headers) -> PlainTextResponse | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self._hosts:
            return PlainTextResponse("This address is not the one the page was started with.", 421)
        if origin is not None and origin != f"http://{host}":
            return PlainTextResponse("Requests from other web pages are refused.", 403)
        if scope["method"] == "POST" and headers.get("content-type") != "application/json":
            return PlainTextResponse("Expected JSON.", 415)
        if not headers.get("content-length", "0").isdecimal() or int(headers.get("content-length", 0)) > LONGEST_BODY:
            return PlainTextResponse("The request is too long.", 413)
        given = scope["path"].split("/")[1]
        if not secrets.compare_digest(given.encode(), self._token.encode()):
            return PlainTextResponse("Open the address that `bagwise label` printed: it holds a token.", 403)
        return None
