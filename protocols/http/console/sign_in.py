"""Sign-in: who is signed in, what they may do, and who may do what.

GET /api/v1/session          who asks, and what the page may offer them
POST /api/v1/session         sign in with name and password
DELETE /api/v1/session       sign out
GET, DELETE /api/v1/sessions...   which browsers are signed in; end one
GET /api/v1/permissions      the rules
GET /api/v1/permissions/check     may X do Y to Z?, and by which rule
"""

from __future__ import annotations

import time
from typing import Final

import anyio
from starlette.responses import Response

from covey import __version__
from covey.core.errors import RefusedError
from covey.core.management.describe import Attributes, Plain
from covey.core.management.inspection import SYNTAX
from covey.core.naming.destination import Destination
from covey.core.security.permissions import Permission
from covey.core.security.users import ADMIN, Identity, Verb, may
from covey.protocols.http.answer import empty_answer, json_answer, login_required
from covey.protocols.http.ask import Ask
from covey.protocols.http.auth import is_local
from covey.protocols.http.schemas import SignInBody

KINDS: Final = ("queue", "topic", "dsub")
BROKER: Final = "broker"


async def read_session(ask: Ask) -> Response:
    """Tell who asks and what they may do."""
    return json_answer(_session(ask, ask.identity))


async def sign_in(ask: Ask) -> Response:
    """Check name and password, and give the browser a cookie."""
    body = ask.body
    assert isinstance(body, SignInBody)
    users = ask.broker.users
    local = is_local(ask.headers, ask.remote.rpartition(":")[0])
    try:
        identity = users.login(body.name, body.password, is_loopback=local, remote=ask.remote)
    except RefusedError as error:
        if error.code == "throttled":
            raise
        await anyio.sleep(ask.broker.limits.login_failed_wait_s)
        raise login_required(ask.headers) from error
    ask.console.visits.note(identity, ask.now)
    secret, session = ask.console.sessions.begin(identity, time.monotonic())
    ask.identity = identity
    ask.signed_in = session
    response = json_answer(_session(ask, identity), ask.route.status)
    ask.console.sessions.set_cookie(response, secret, is_secure=ask.is_secure)
    return response


async def sign_out(ask: Ask) -> Response:
    """End the browser's session."""
    if ask.signed_in is not None:
        ask.console.sessions.end(ask.signed_in)
    response = empty_answer()
    ask.console.sessions.set_cookie(response, "", is_secure=ask.is_secure)
    return response


async def list_sessions(ask: Ask) -> Response:
    """Show which browsers are signed in."""
    found = ask.console.sessions.describe(time.monotonic())
    items: list[Plain] = list(found)
    return json_answer({"items": items, "total": len(items)})


async def end_session(ask: Ask) -> Response:
    """Sign a browser out."""
    with ask.admin.acting("close", "session", ask.name):
        ask.console.sessions.end_number(ask.name)
    return empty_answer()


async def check_permission(ask: Ask) -> Response:
    """Say whether somebody may do something, and why."""
    user, verb, target = ask.text("user"), ask.text("verb"), ask.text("on")
    user = user or ask.identity.name
    identity = ask.broker.users.known(user)
    if identity is None:
        raise RefusedError(f"there is no user {user[:80]!r}", "not-found")
    verbs = [one.value for one in Verb]
    if verb not in verbs:
        raise RefusedError(f"{verb[:40]!r} is none of {', '.join(verbs)}", "invalid")
    place = _place(target)
    allowed = may(identity, Verb(verb), place)
    answer: Attributes = {
        "user": user,
        "verb": verb,
        "on": place,
        "allowed": allowed,
        "because": _reason(ask, identity, verb, place, allowed=allowed),
    }
    return json_answer(answer)


def _place(text: str) -> str:
    """Return a name as rules write it, `queue:orders`; "" and `broker` mean the broker."""
    if text in ("", BROKER):
        return BROKER
    kind, colon, _ = text.partition(":")
    if colon and kind in KINDS:
        return text
    found: tuple[Destination, ...] = SYNTAX.parse(text, allow_patterns=False)
    if len(found) > 1:
        raise RefusedError(f"{text[:80]!r} is not one destination", "invalid")
    return str(found[0])


def _reason(ask: Ask, identity: Identity, verb: str, place: str, *, allowed: bool) -> str:
    if identity.has_role(ADMIN):
        return "the role admin may do everything"
    rules = ask.broker.settings.permissions
    if not rules:
        if allowed:
            return "there is no [[permission]], so every user may do everything but manage"
        return "there is no [[permission]]: only the role admin may manage"
    kind, _, name = place.partition(":")
    for number, settings in enumerate(rules, 1):
        rule = Permission(settings)
        if not rule.is_for(identity.access.principals):
            continue
        is_by_this = rule.allows_broker(verb) if place == BROKER else rule.allows(verb, kind, name)
        if is_by_this:
            who, verbs = ", ".join(settings.who), ", ".join(settings.may)
            return f"rule {number}: {who} may {verbs} on {settings.on}"
    return "no rule allows it"


def _session(ask: Ask, identity: Identity) -> Attributes:
    access = identity.access
    is_admin = identity.has_role(ADMIN)
    return {
        "user": identity.name,
        "roles": [one.name for one in identity.principals if one.kind == "role"],
        "token": "" if ask.signed_in is None else ask.signed_in.token,
        "version": __version__,
        "broker": ask.broker.limits.id,
        "hosts": [
            {"id": entry.id, "name": min(entry.host_names, default="")}
            for entry in ask.directory.virtual_hosts
        ],
        "is_clustered": ask.directory.shared.cluster is not None,
        "workers": ask.directory.settings.broker.workers,
        "creates": [
            kind for kind in KINDS if is_admin or access.allows_some(Verb.CREATE.value, kind)
        ],
        "manages": may(identity, Verb.MANAGE, BROKER),
        "manages_some": [
            kind for kind in KINDS if is_admin or access.allows_some(Verb.MANAGE.value, kind)
        ],
        "default_password": ask.broker.users.has_default_password and is_admin,
    }


def rights_on(identity: Identity, place: str) -> list[Plain]:
    """Return the verbs that a user may use on a destination, so that a page offers only those."""
    return [verb.value for verb in Verb if may(identity, verb, place)]
