"""Assets: the files of the console, read once and served under a name made of their content.

All of them are under `/console/RELEASE/`, where RELEASE is a hash of all files together. So a
module finds its neighbours by relative names, without a build step. A browser may keep each file
for ever, since a changed file has another address. Only the page itself, at `/`, is fetched anew
each time, since it names the release.

Comments stay in the tree: a browser gets an empty line for each of theirs, so that the numbers of
lines are those of the files.

Nothing here is secret. A stranger gets the sign-in form and the code behind it, and nothing about
the broker.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from functools import cache
from importlib.resources import files
from typing import Final

from starlette.responses import Response

from covey.protocols.http.answer import SECURITY_HEADERS, HttpError
from covey.protocols.http.ask import Ask

PAGE: Final = "index.html"
RELEASE: Final = b"@RELEASE@"  # where the page names the release
MODULES: Final = b"<!-- modules -->"  # where the page names the modules of the first view
FIRST: Final = ("main.js", "overview.js")  # what everybody sees first
IMPORT: Final = re.compile(rb'from "\./([\w.]+)"')
COMMENT: Final = re.compile(rb"^[ \t]*(?://[^\n]*|/\*.*?\*/[ \t]*)$", re.MULTILINE | re.DOTALL)
MEDIA_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}

# Our own files and our own API, and nothing else; no text can become markup or code.
CONSOLE_HEADERS: Final = SECURITY_HEADERS | {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
        " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
        " require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
}
KEPT: Final = "public, max-age=31536000, immutable"


@cache
def contents() -> dict[str, bytes]:
    """Return every file of the console by its name, as a browser gets it."""
    folder = files("covey.protocols.http.console") / "static"
    return {
        each.name: _without_comments(each.read_bytes())
        for each in sorted(folder.iterdir(), key=lambda one: one.name)
        if each.name.rpartition(".")[2] in MEDIA_TYPES
    }


def _without_comments(text: bytes) -> bytes:
    return COMMENT.sub(lambda found: b"\n" * found[0].count(b"\n"), text)


@cache
def release() -> str:
    """Return the name of this version of all files."""
    digest = hashlib.sha256()
    for name, content in contents().items():
        digest.update(name.encode() + b"\0" + content)
    return digest.hexdigest()[:16]


@cache
def needed(*modules: str) -> list[str]:
    """Return modules and all their imports, so that a browser can fetch all of them at once."""
    found = list(modules)
    for name in found:
        imported = [one.decode() for one in IMPORT.findall(contents()[name])]
        found += [one for one in dict.fromkeys(imported) if one not in found]
    return found


@cache
def packed(name: str) -> bytes:
    """Return a file compressed by gzip: a third of its size, for browsers that are far away."""
    return gzip.compress(contents()[name], mtime=0)


@cache
def page() -> bytes:
    """Return the page, which names its files by their release."""
    links = "\n".join(
        f'<link rel="modulepreload" href="/console/{release()}/{name}">' for name in needed(*FIRST)
    )
    text = contents()[PAGE].replace(MODULES, links.encode())
    return text.replace(RELEASE, release().encode())


async def show_page(ask: Ask) -> Response:
    """Show the console; the page itself asks for a login."""
    return Response(page(), 200, CONSOLE_HEADERS, MEDIA_TYPES["html"])


async def show_file(ask: Ask) -> Response:
    """Show one of the files that the page names."""
    name = ask.names["file"]
    if ask.names["release"] != release() or name not in contents() or name == PAGE:
        raise HttpError("there is no such file of the console", "not-found")
    headers = CONSOLE_HEADERS | {"cache-control": KEPT, "vary": "accept-encoding"}
    content = contents()[name]
    if "gzip" in ask.headers.get("accept-encoding", ""):
        headers["content-encoding"] = "gzip"
        content = packed(name)
    return Response(content, 200, headers, MEDIA_TYPES[name.rpartition(".")[2]])
