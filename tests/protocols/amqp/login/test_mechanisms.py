"""The mechanisms, each with good, bad and unknown users."""

from __future__ import annotations

import pytest
from scramp import ScramClient, ScramException

from covey.core.security.users import Identity
from covey.protocols.amqp.login.sasl import AMQP_HEADER, CHALLENGE, OUTCOME, SaslServer, SaslState
from tests.protocols.amqp.login.test_sasl import (
    REFUSAL,
    answers,
    init,
    login,
    refused,
    response,
    server,
)

# PLAIN.


def test_a_good_password_logs_in() -> None:
    sasl = server()
    sent = login(sasl, init("PLAIN", b"\0ada\0secret", "north") + AMQP_HEADER + b"x")
    assert sent == [(OUTCOME, [0])]
    assert sasl.state is SaslState.DONE
    assert sasl.identity.name == "ada"
    assert sasl.identity.has_role("crew")
    assert (sasl.hostname, sasl.leftover) == ("north", AMQP_HEADER + b"x")


@pytest.mark.parametrize(
    "content",
    [
        b"\0ada\0wrong",
        b"\0nobody\0secret",
        b"\0ada\0",
        b"\0\0",
        b"",
        b"ada\0secret",
        b"\0ada\0secret\0",
        b"admin\0ada\0secret",  # for somebody else
        b"\0ada\0\xff",
        b"\0" * 2000,
    ],
)
def test_a_bad_password_is_refused_without_a_word(content: bytes) -> None:
    refused(server(), init("PLAIN", content))


def test_an_authzid_may_repeat_the_name() -> None:
    assert login(server(), init("PLAIN", b"ada\0ada\0secret")) == [(OUTCOME, [0])]


def test_a_default_password_is_good_on_this_machine_only() -> None:
    known = init("PLAIN", b"\0admin\0password")
    assert login(server(), known) == [(OUTCOME, [0])]
    refused(server(is_loopback=False), known)


def test_a_client_without_an_initial_response_is_asked_for_one() -> None:
    sasl = server()
    sent = login(sasl, init("PLAIN", None), response(b"\0ada\0secret"))
    assert sent == [(CHALLENGE, [b""]), (OUTCOME, [0])]
    assert sasl.identity.name == "ada"


# SCRAM.


def scram(sasl: SaslServer, name: str, password: str) -> list[tuple[int, list[object]]]:
    """Log in with scramp's client; return the last answer."""
    client = ScramClient(["SCRAM-SHA-256"], name, password)
    first = init("SCRAM-SHA-256", client.get_client_first().encode())
    challenge = login(sasl, first)
    assert challenge[0][0] == CHALLENGE
    content = challenge[0][1][0]
    assert isinstance(content, bytes)
    client.set_server_first(content.decode())
    sasl.receive(response(client.get_client_final().encode()))
    sent = answers(sasl)
    if sent[0][1][0] == 0:
        final = sent[0][1][1]
        assert isinstance(final, bytes)
        client.set_server_final(final.decode())  # raises if the server cannot prove itself
    return sent


def test_scram_logs_in_and_the_server_proves_itself() -> None:
    sasl = server()
    assert scram(sasl, "ada", "secret")[0][1][0] == 0
    assert (sasl.state, sasl.identity.name) == (SaslState.DONE, "ada")


@pytest.mark.parametrize(("name", "password"), [("ada", "wrong"), ("nobody", "secret")])
def test_scram_refuses_a_wrong_password_and_an_unknown_name_alike(name: str, password: str) -> None:
    sasl = server()
    assert scram(sasl, name, password) == [REFUSAL]
    assert sasl.state is SaslState.FAILED


def salt_of(name: str) -> object:
    client = ScramClient(["SCRAM-SHA-256"], name, "x", c_nonce="nonce")
    sent = login(server(), init("SCRAM-SHA-256", client.get_client_first().encode()))
    content = sent[0][1][0]
    assert isinstance(content, bytes)
    return content.decode().split(",")[1]


def test_an_unknown_name_has_the_same_salt_each_time() -> None:
    assert salt_of("nobody") == salt_of("nobody") != salt_of("somebody")


def test_scram_of_a_default_password_is_refused_from_afar() -> None:
    assert scram(server(is_loopback=False), "admin", "password") == [REFUSAL]


@pytest.mark.parametrize(
    "content",
    [b"", b"n,,", b"n,,n=ada", b"n,a=admin,n=ada,r=x", b"p=tls-unique,,n=ada,r=x", b"\xff", b","],
)
def test_a_malformed_first_message_is_refused(content: bytes) -> None:
    refused(server(), init("SCRAM-SHA-256", content))


@pytest.mark.parametrize("content", [b"", b"c=biws,r=x,p=eA==", b"c=%,r=x,p=%", b"\xff", b"p="])
def test_a_malformed_final_message_is_refused(content: bytes) -> None:
    refused(server(), init("SCRAM-SHA-256", b"n,,n=ada,r=x"), response(content))


def test_a_proof_is_good_once() -> None:
    client = ScramClient(["SCRAM-SHA-256"], "ada", "secret")
    sasl = server()
    sent = login(sasl, init("SCRAM-SHA-256", client.get_client_first().encode()))
    content = sent[0][1][0]
    assert isinstance(content, bytes)
    client.set_server_first(content.decode())
    proof = response(client.get_client_final().encode())
    first = init("SCRAM-SHA-256", f"n,,n=ada,r={client.c_nonce}".encode())
    refused(server(), first, proof)  # another server nonce
    with pytest.raises(ScramException):
        client.get_client_final()


# EXTERNAL and ANONYMOUS.


@pytest.mark.parametrize("content", [b"", b"ada"])
def test_a_certificate_logs_in(content: bytes) -> None:
    sasl = server(certificate_name="ada")
    assert login(sasl, init("EXTERNAL", content)) == [(OUTCOME, [0])]
    assert sasl.identity.name == "ada"


def test_a_certificate_of_nobody_we_know_is_refused() -> None:
    refused(server(certificate_name="eve"), init("EXTERNAL", b""))
    refused(server(certificate_name="ada"), init("EXTERNAL", b"admin"))
    refused(server(), init("EXTERNAL", b"ada"))


@pytest.mark.parametrize("content", [None, b"", b"me@example", b"\xff"])
def test_anonymous_is_let_in_where_allowed(content: bytes | None) -> None:
    sasl = server(allow_anonymous=True)
    assert login(sasl, init("ANONYMOUS", content)) == [(OUTCOME, [0])]
    assert sasl.identity == Identity("anonymous")
    refused(server(), init("ANONYMOUS", content))
