"""Answer: what an HTTP client gets back, good or bad.

Answers are JSON unless a route says otherwise. Nothing of a message ever becomes an HTTP header:
names and values come from senders, and a line break in a header does harm.

A refusal is `{"code": ..., "text": ...}`: the core's own code and sentence. `STATUS` is the one
table from codes to HTTP's numbers (RFC 9110, section 15).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

from anyio.lowlevel import checkpoint
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response

from covey.core.errors import BrokerError
from covey.core.management.describe import Attributes, Plain

STATUS: Final = {
    "invalid": 400,
    "login": 401,
    "denied": 403,
    "not-found": 404,
    "method": 405,
    "timeout": 408,
    "exists": 409,
    "conflict": 409,
    "refused": 409,
    "cancelled": 409,
    "too-large": 413,
    "media-type": 415,
    "misdirected": 421,
    "limit": 422,
    "throttled": 429,
    "internal-error": 500,
    "full": 503,
    "shutdown": 503,
    "store-failed": 503,
    "unavailable": 503,
}
STATUS_UNKNOWN: Final = 400
PORTION: Final = 100  # rows of a list that are described and written in one turn

# No answer may run a script, whatever a queue's name is. The console's files have other headers.
SECURITY_HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
CHALLENGE: Final = {"www-authenticate": 'Basic realm="covey", charset="UTF-8"'}


class HttpError(BrokerError):
    """A refusal that only HTTP has: no login, no such route, a body too large."""

    def __init__(self, text: str, code: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text, code)
        self.headers = dict(headers or {})


def login_required(headers: Headers | None = None) -> HttpError:
    """Make the answer to a missing or wrong login, which is the same for both.

    A script in a browser gets no challenge (WWW-Authenticate): the browser would show its own form.
    """
    is_script = headers is not None and headers.get("sec-fetch-dest") == "empty"
    challenge = {} if is_script else CHALLENGE
    return HttpError("a login is needed: wrong user or password, or none", "login", challenge)


def json_answer(value: Plain, status: int = 200) -> Response:
    """Answer with a value."""
    return JSONResponse(value, status, SECURITY_HEADERS)


async def list_answer(rows: Iterable[Attributes], total: int) -> Response:
    """Answer with a page of a list.

    Describing and writing a thousand rows takes tens of milliseconds. So `rows` may describe each
    row when it is asked for, and others have their turn after each portion.
    """
    pieces: list[str] = []
    for number, row in enumerate(rows):
        if number % PORTION == PORTION - 1:
            await checkpoint()
        pieces.append(json.dumps(row, ensure_ascii=False, allow_nan=False, separators=(",", ":")))
    text = f'{{"items":[{",".join(pieces)}],"total":{total}}}'
    return text_answer(text, "application/json")


def text_answer(text: str, media_type: str, status: int = 200) -> Response:
    """Answer with a text of the given type."""
    return Response(text, status, SECURITY_HEADERS, media_type)


def empty_answer() -> Response:
    """Answer that the request is done, without content."""
    return Response(None, 204, SECURITY_HEADERS)


def refusal(error: BrokerError) -> Response:
    """Answer with a refusal and its reason."""
    headers = {**SECURITY_HEADERS, **(error.headers if isinstance(error, HttpError) else {})}
    status = STATUS.get(error.code, STATUS_UNKNOWN)
    return JSONResponse({"code": error.code, "text": error.text}, status, headers)
