"""TLS: what a connector's certificates become, and whose certificate a peer showed.

TLS 1.2 or newer, by Python's ssl (OpenSSL). A file that cannot be used is refused at start with its
name. A client's certificate is checked against `client_ca` alone: who is not signed by it, or is
expired, does not get through the handshake. Its common name is the user that AMQP's EXTERNAL logs
in; one with several of them is nobody's.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Final

from covey.config.settings import TlsSettings

VERIFY: Final = {
    "none": ssl.CERT_NONE,
    "optional": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
COMMON_NAME: Final = "commonName"
# OpenSSL's guesses at what it was sent instead: a STOMP CONNECT is an "https proxy request" to it.
NOT_TLS: Final = ("HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "WRONG_VERSION_NUMBER")


def make_context(settings: TlsSettings) -> ssl.SSLContext:
    """Read the files; raises OSError that names the one which cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION  # a peer's way to have us work for nothing
    try:
        context.load_cert_chain(settings.certificate, settings.key, _no_passphrase)
    except (OSError, ValueError) as error:
        raise OSError(
            f"TLS certificate {settings.certificate} with key {settings.key}: {_cause(error)}"
        ) from error
    if settings.client_ca is not None:
        try:
            context.load_verify_locations(settings.client_ca)
        except OSError as error:
            raise OSError(f"TLS client_ca {settings.client_ca}: {_cause(error)}") from error
    context.verify_mode = VERIFY[settings.client_auth]
    return context


def certificate_name(certificate: Mapping[str, object] | None) -> str | None:
    """Return the one common name of a certificate that was checked, as `getpeercert` gives it."""
    subject = (certificate or {}).get("subject", ())
    assert isinstance(subject, tuple)
    names = [value for part in subject for key, value in part if key == COMMON_NAME]
    return str(names[0]) if len(names) == 1 else None


def handshake_failure(error: Exception) -> str:
    """Say in a few words why a handshake failed; never more than OpenSSL's own reason."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason in NOT_TLS:
        return "the peer does not speak TLS"
    if isinstance(error, ssl.SSLError):
        return str(error.reason or "not TLS").lower().replace("_", " ")
    return "no handshake in time" if isinstance(error, TimeoutError) else "the peer went away"


def _no_passphrase() -> str:
    """Answer for nobody: OpenSSL would ask at the terminal, and the broker would hang."""
    raise ValueError("the key has a passphrase; the broker needs one without")


def _cause(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) and error.reason in NOT_TLS:
        return "the peer does not speak TLS"
    if isinstance(error, ssl.SSLError):
        return str(error.reason or "not PEM").lower().replace("_", " ")
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
