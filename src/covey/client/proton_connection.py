"""Connection: proton's blocking connection to a broker, opened with a login and, if asked, TLS.

Shared by the clients that speak AMQP; whatever proton raises becomes one of `client.errors`.
"""

from __future__ import annotations

import os
import re
import ssl
from ast import literal_eval
from typing import Any, Final

from proton import Condition, ProtonException, SSLDomain
from proton.reactor import Container
from proton.utils import BlockingConnection, ConnectionClosed

from covey.client.errors import AnswerError, ClientError, DeniedError, UnreachableError, asked_again
from covey.client.place import Place
from covey.protocols.amqp.conditions import CONDITIONS

CONDITION: Final = re.compile(r" due to: Condition\((.*)\)$", re.DOTALL)  # as proton writes one


def connect(place: Place, timeout_s: float | None) -> BlockingConnection:
    """Connect and log in, or raise UnreachableError or DeniedError."""
    try:
        return BlockingConnection(
            f"{'amqps' if place.is_tls else 'amqp'}://{place.address}",
            timeout=timeout_s,
            container=_container(),
            ssl_domain=_tls_domain() if place.is_tls else None,
            user=place.user,
            password=place.password or "",
            virtual_host=place.virtual_host or place.host,
            sni=place.host,  # what the certificate is for, whichever virtual host is meant
            allowed_mechs="PLAIN",
            allow_insecure_mechs=True,
            reconnect=False,
        )
    except (ProtonException, OSError) as error:
        raise why(error, place) from error


def _container() -> Container:
    """Return proton's side of it, named so that a list of connections tells who this is."""
    container = Container()
    container.container_id = f"covey-{os.getpid()}"
    return container


def close(connection: BlockingConnection) -> None:
    """Let the broker go; one that is gone already is no trouble."""
    try:
        connection.close()
    except (ProtonException, OSError):
        return


def why(error: Exception, place: Place) -> ClientError:
    """Say why a connection failed."""
    text = str(error)
    if "unauthorized" in text or "Authentication" in text:
        return DeniedError(f"{place.address} refused the login of {place.user}")
    condition = _last_word(error)
    if condition is not None:
        return refusal(condition)
    trusted = "trusted " if place.is_tls else ""
    return asked_again(place, "AMQP") or UnreachableError(
        f"no {trusted}broker answers at {place.address}"
    )


def _last_word(error: Exception) -> Condition | None:
    """Return the condition with which the broker itself closed a connection; None if it did not.

    The connection has forgotten it when the error arrives; the error's text still holds it.
    """
    found = CONDITION.search(str(error)) if isinstance(error, ConnectionClosed) else None
    if found is None:
        return None
    try:
        name, description, *_ = literal_eval(f"({found[1]},)")
    except (SyntaxError, ValueError):
        return None
    return Condition(str(name), str(description))


def refusal(condition: Any) -> ClientError:
    """Say no as the broker did; without a word it has only let go."""
    if condition is None:
        return AnswerError("the broker did not take the message")
    text = str(condition.description or condition.name)
    return DeniedError(text) if condition.name == CONDITIONS["denied"] else AnswerError(text)


def _tls_domain() -> SSLDomain:
    """Trust whom this system trusts, and only for the host's own name."""
    domain = SSLDomain(SSLDomain.MODE_CLIENT)
    authorities = ssl.get_default_verify_paths().cafile
    if authorities is not None:
        domain.set_trusted_ca_db(authorities)
    domain.set_peer_authentication(SSLDomain.VERIFY_PEER_NAME)
    return domain
