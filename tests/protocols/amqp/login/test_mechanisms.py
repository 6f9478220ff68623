"""The mechanisms, each with good, bad and unknown users."""

from __future__ import annotations

import pytest
from pydantic import SecretStr
from scramp import ScramClient, ScramException

from covey.config.settings import UserSettings
from covey.core.clock import Clock
from covey.core.errors import RefusedError
from covey.core.security.throttle import Throttle
from covey.core.security.users import Identity, Users
from covey.protocols.amqp.login.mechanisms import Scram
from covey.protocols.amqp.login.sasl import AMQP_HEADER, CHALLENGE, OUTCOME, SaslServer, SaslState
from tests.core.events.test_audit import Heard
from tests.protocols.amqp.login.test_sasl import (
    REFUSAL,
    answers,
    init,
    login,
    refused,
    response,
    server,
)

ADA = UserSettings(name="ada", password=SecretStr("secret"))

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


class Exchange:
    """A SCRAM login that stops after the challenge, until it is told to go on."""

    def __init__(self, users: Users, name: str, password: str, remote: str) -> None:
        self.client = ScramClient(["SCRAM-SHA-256"], name, password)
        self.server = Scram(users, is_loopback=True, remote=remote)
        challenge = self.server.respond(self.client.get_client_first().encode())
        self.client.set_server_first(challenge.decode())

    def finish(self) -> str:
        """Send the proof; return "ok", or the code of the refusal."""
        try:
            self.server.respond(self.client.get_client_final().encode())
        except RefusedError as error:
            return error.code
        return "ok"


TRIES = 3
REMOTE = "192.0.2.1:4711"


def throttled_users(heard: Heard) -> Users:
    return Users((ADA,), throttle=Throttle(TRIES, 60.0, 60.0), audit=heard)


@pytest.mark.parametrize("names", [["ada"], ["ada", "nobody", "somebody", "anybody"]])
def test_of_exchanges_under_way_at_once_only_so_many_proofs_are_looked_at(
    names: list[str],
) -> None:
    heard = Heard()
    users = throttled_users(heard)
    begun = [
        Exchange(users, names[number % len(names)], "wrong", REMOTE) for number in range(10 * TRIES)
    ]
    codes = [exchange.finish() for exchange in begun]
    assert codes == ["denied"] * TRIES + ["throttled"] * 9 * TRIES
    assert len(heard.all) == TRIES


def test_the_right_proof_of_an_exchange_under_way_is_not_looked_at_once_it_is_too_late() -> None:
    users = throttled_users(Heard())
    right = Exchange(users, "ada", "secret", REMOTE)
    for exchange in [Exchange(users, "ada", "wrong", REMOTE) for _ in range(TRIES)]:
        exchange.finish()
    assert right.finish() == "throttled"


def test_a_fleet_that_logs_in_at_once_with_right_passwords_is_let_in() -> None:
    heard = Heard()
    users = throttled_users(heard)
    fleet = [Exchange(users, "ada", "secret", REMOTE) for _ in range(10 * TRIES)]
    assert {exchange.finish() for exchange in fleet} == {"ok"}
    assert heard.all == []


def test_who_asks_again_during_a_ban_is_told_to_wait_and_does_not_prolong_it() -> None:
    heard, clock = Heard(), Clock()
    users = Users((ADA,), throttle=Throttle(TRIES, 60.0, 60.0), clock=clock, audit=heard)
    clock.turn(1.0)
    for exchange in [Exchange(users, "ada", "wrong", REMOTE) for _ in range(TRIES)]:
        exchange.finish()
    for second in range(2, 61):
        clock.turn(float(second))
        with pytest.raises(RefusedError) as refusal:
            Exchange(users, "ada", "secret", REMOTE)
        assert refusal.value.code == "throttled"
    assert len(heard.all) == TRIES
    clock.turn(61.5)
    assert Exchange(users, "ada", "secret", REMOTE).finish() == "ok"


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
