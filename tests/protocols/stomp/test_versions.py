"""The version tables: negotiation, known commands, required headers."""

from __future__ import annotations

import pytest

from covey.core.errors import ProtocolError
from covey.protocols.stomp.versions import SUPPORTED_TEXT, Version, check, negotiate

V1_0, V1_1, V1_2 = Version.V1_0, Version.V1_1, Version.V1_2


def test_versions_have_their_wire_text_and_order() -> None:
    assert [version.text for version in Version] == ["1.0", "1.1", "1.2"]
    assert V1_0 < V1_1 < V1_2
    assert SUPPORTED_TEXT == "1.2,1.1,1.0"


@pytest.mark.parametrize(
    ("accept_version", "version"),
    [
        (None, V1_0),
        ("1.0", V1_0),
        ("1.1", V1_1),
        ("1.2", V1_2),
        ("1.0,1.1,1.2", V1_2),
        ("1.2,1.1", V1_2),
        ("1.1,1.0", V1_1),
        (" 1.0 , 1.1 ", V1_1),
        ("1.1,2.0", V1_1),
        ("2.0", None),
        ("1.3,1.10", None),
        ("", None),
        ("1", None),
        ("1.2.0", None),
        ("1.1;1.2", None),
    ],
)
def test_the_highest_common_version_is_chosen(
    accept_version: str | None, version: Version | None
) -> None:
    assert negotiate(accept_version) is version


LOGIN = {"accept-version", "host"}
NEEDED: list[tuple[str, Version, set[str]]] = [
    ("CONNECT", V1_0, set()),
    ("CONNECT", V1_1, LOGIN),
    ("CONNECT", V1_2, LOGIN),
    ("STOMP", V1_0, set()),
    ("STOMP", V1_1, LOGIN),
    ("STOMP", V1_2, LOGIN),
    ("SUBSCRIBE", V1_0, {"destination"}),
    ("SUBSCRIBE", V1_1, {"destination", "id"}),
    ("SUBSCRIBE", V1_2, {"destination", "id"}),
    ("UNSUBSCRIBE", V1_1, {"id"}),
    ("UNSUBSCRIBE", V1_2, {"id"}),
    ("ACK", V1_0, {"message-id"}),
    ("ACK", V1_1, {"message-id", "subscription"}),
    ("ACK", V1_2, {"id"}),
    ("NACK", V1_1, {"message-id", "subscription"}),
    ("NACK", V1_2, {"id"}),
    *[("SEND", version, {"destination"}) for version in Version],
    *[("BEGIN", version, {"transaction"}) for version in Version],
    *[("COMMIT", version, {"transaction"}) for version in Version],
    *[("ABORT", version, {"transaction"}) for version in Version],
    *[("DISCONNECT", version, set()) for version in Version],
]


@pytest.mark.parametrize(("command", "version", "needed"), NEEDED)
def test_each_required_header_is_missed_by_name(
    command: str, version: Version, needed: set[str]
) -> None:
    check(command, dict.fromkeys(needed, "x"), version)
    check(command, dict.fromkeys({*needed, "other"}, "x"), version)
    for name in needed:
        with pytest.raises(ProtocolError, match=f"^{command} frame without the header {name}$"):
            check(command, dict.fromkeys(needed - {name}, "x"), version)


@pytest.mark.parametrize(("command", "version", "needed"), NEEDED)
def test_a_required_header_may_not_be_empty(
    command: str, version: Version, needed: set[str]
) -> None:
    for name in needed:
        with pytest.raises(ProtocolError, match=f"^{command} frame with an empty header {name}$"):
            check(command, dict.fromkeys(needed, "x") | {name: ""}, version)


def test_a_1_0_unsubscribe_names_its_subscription_by_id_or_destination() -> None:
    check("UNSUBSCRIBE", {"id": "1"}, V1_0)
    check("UNSUBSCRIBE", {"destination": "/queue/a"}, V1_0)
    with pytest.raises(ProtocolError, match="header id or destination"):
        check("UNSUBSCRIBE", {"receipt": "1"}, V1_0)


@pytest.mark.parametrize("command", ["MESSAGE", "CONNECTED", "RECEIPT", "ERROR", "send", "", "X"])
def test_what_clients_do_not_send_is_refused(command: str) -> None:
    for version in Version:
        with pytest.raises(ProtocolError, match=f"not a client frame of STOMP {version.text}"):
            check(command, {}, version)


def test_1_0_does_not_know_nack() -> None:
    with pytest.raises(ProtocolError, match=r"NACK is not a client frame of STOMP 1\.0"):
        check("NACK", {"message-id": "1"}, V1_0)


@pytest.mark.parametrize("command", ["SEND", "ACK", "NACK"])
def test_a_transaction_has_a_name(command: str) -> None:
    headers = {"destination": "/queue/a", "id": "1", "transaction": ""}
    with pytest.raises(ProtocolError, match=f"{command} frame with an empty header transaction"):
        check(command, headers, V1_2)
