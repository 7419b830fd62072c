"""The page and its few requests. Nothing here decides anything: the session does."""

import json
import socket
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route

from bagwise.exceptions import BagDataError
from bagwise.io.plain_json import plain_numbers
from bagwise.labelling.exhibit import Exhibit
from bagwise.labelling.gate import LONGEST_BODY, Gate
from bagwise.labelling.session import Session
from bagwise.report.templates import page_template

_HERE = Path(__file__).parent
_FILES = {"page.js": "text/javascript", "page.css": "text/css"}


@dataclass(frozen=True, eq=False)
class Desk:
    """What the requests need: the session, how items are shown, and the table to hand out."""

    session: Session
    exhibit: Exhibit
    title: str
    export: Callable[[], bytes]

    # ------------------------------------------------------------ requests

    async def page(self, request: Request) -> Response:
        """The page itself."""
        pool = self.session.pool
        html = page_template("page.html", _HERE).render(
            title=self.title, what=pool.what, kind=pool.question.kind, options=pool.question.options, by=self.session.by
        )
        return HTMLResponse(html)

    async def file(self, request: Request) -> Response:
        """Script and style."""
        name = request.path_params["name"]
        return Response((_HERE / name).read_bytes(), media_type=_FILES[name]) if name in _FILES else _not_found()

    async def next(self, request: Request) -> Response:
        """The item for a tab, and how far it is."""
        return await self._shown(request.query_params.get("tab", ""))

    async def answer(self, request: Request) -> Response:
        """Keep an answer, then the next item."""
        sent = await _body(request)
        tab, number = str(sent.get("tab", "")), _whole(sent.get("item"))
        await run_in_threadpool(self.session.answer, tab, number, sent.get("values"), shown=sent.get("shown") is True)
        return await self._shown(tab)

    async def skip(self, request: Request) -> Response:
        """Put an item at the end, then the next item."""
        sent = await _body(request)
        tab = str(sent.get("tab", ""))
        await run_in_threadpool(self.session.skip, tab, _whole(sent.get("item")))
        return await self._shown(tab)

    async def undo(self, request: Request) -> Response:
        """Take back the last answer and show its item again."""
        tab = str((await _body(request)).get("tab", ""))
        await run_in_threadpool(self.session.undo, tab)
        return await self._shown(tab)

    async def rows(self, request: Request) -> Response:
        """More rows of an item."""
        number, start = (_whole(request.query_params.get(name)) for name in ("item", "start"))
        return JSONResponse(await run_in_threadpool(self.exhibit.item, number, start))

    async def belief(self, request: Request) -> Response:
        """What the model thinks, for those who ask."""
        own, rows = await run_in_threadpool(self.session.belief, _whole(request.query_params.get("item")))
        return JSONResponse({"belief": own, "rows": rows})

    async def progress(self, request: Request) -> Response:
        """How far it is, without an item."""
        found = await run_in_threadpool(self.session.progress, request.query_params.get("tab", ""))
        return JSONResponse(plain_numbers(asdict(found)))

    async def picture(self, request: Request) -> Response:
        """The picture of a row."""
        content, kind = await run_in_threadpool(self.exhibit.picture, request.path_params["line"])
        return Response(content, media_type=kind)

    async def table(self, request: Request) -> Response:
        """The answers as a table that ``bagwise fit`` reads."""
        content = await run_in_threadpool(self.export)
        return Response(
            content, media_type="text/csv", headers={"content-disposition": "attachment; filename=labels.csv"}
        )

    async def _shown(self, tab: str) -> Response:
        number = await run_in_threadpool(self.session.next, tab)
        item = None if number is None else await run_in_threadpool(self.exhibit.item, number)
        found = await run_in_threadpool(self.session.progress, tab)
        return JSONResponse(plain_numbers({"item": item, "progress": asdict(found)}))


def make_app(desk: Desk, token: str, hosts: frozenset[str]) -> Gate:
    """The application, behind its gate."""
    routes = [
        Route("/", desk.page),
        Route("/file/{name}", desk.file),
        Route("/next", desk.next),
        Route("/answer", desk.answer, methods=["POST"]),
        Route("/skip", desk.skip, methods=["POST"]),
        Route("/undo", desk.undo, methods=["POST"]),
        Route("/rows", desk.rows),
        Route("/belief", desk.belief),
        Route("/progress", desk.progress),
        Route("/picture/{line:int}", desk.picture),
        Route("/labels.csv", desk.table),
    ]
    handlers: Any = {BagDataError: _refused}
    return Gate(Starlette(routes=[Mount(f"/{token}", routes=routes)], exception_handlers=handlers), token, hosts)


def serve(make: Callable[[int], Gate], host: str, port: int, ready: Callable[[int], object]) -> None:
    """Listen until Ctrl-C; port 0 takes a free one. ``ready`` is called with the port when it is known."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        found = int(listener.getsockname()[1])
        options: dict[str, Any] = {"lifespan": "off", "ws": "none", "proxy_headers": False, "server_header": False}
        server = uvicorn.Server(uvicorn.Config(make(found), log_level="warning", **options))
        ready(found)
        server.run(sockets=[listener])


def _refused(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 422)


def _not_found() -> Response:
    return PlainTextResponse("Not found.", 404)


async def _body(request: Request) -> dict[str, Any]:
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > LONGEST_BODY:
            raise BagDataError("the request is too long.")
    try:
        sent = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise BagDataError(f"the request is not JSON ({error}).") from error
    if not isinstance(sent, dict):
        raise BagDataError("the request is not a JSON object.")
    return sent


def _whole(value: Any) -> int:
    if isinstance(value, str) and value.isdecimal() and len(value) < 12:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise BagDataError(f"{value!r}: expected the number of an item.")
