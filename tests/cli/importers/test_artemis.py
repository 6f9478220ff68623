"""Artemis' broker.xml and Qpid's tables of queues."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from covey.cli.importers.imported import LOCKED, ImportRefused
from covey.cli.importers.importer import import_text
from covey.cli.importers.properties import read_beside
from tests.cli.support import Terminal


def core(text: str) -> str:
    whole = f'<core xmlns="urn:activemq:core">{text}</core>'
    return f'<configuration xmlns="urn:activemq">{whole}</configuration>'


def imported(text: str) -> dict[str, Any]:
    return tomllib.loads(import_text(core(text)).text())


SETTINGS = """
<address-settings>
 <address-setting match="#">
  <dead-letter-address>DLQ</dead-letter-address>
  <expiry-address>DLQ</expiry-address>
  <max-size-bytes>1000</max-size-bytes>
  <address-full-policy>PAGE</address-full-policy>
  <redistribution-delay>5</redistribution-delay>
 </address-setting>
 <address-setting match="orders.#">
  <max-delivery-attempts>3</max-delivery-attempts>
  <redelivery-delay>100</redelivery-delay>
  <redelivery-delay-multiplier>1.5</redelivery-delay-multiplier>
  <address-full-policy>FAIL</address-full-policy>
  <default-group-buckets>64</default-group-buckets>
  <auto-delete-queues>false</auto-delete-queues>
 </address-setting>
</address-settings>
"""


def test_settings_are_inherited_and_the_narrowest_comes_first() -> None:
    narrow, wide = imported(SETTINGS)["queue"]
    assert wide == {
        "id": "**",
        "dlq": "DLQ",
        "dlq_expired": True,
        "nak_limit": 10,
        "groups": {"strategy": "simple"},
    }
    assert narrow == {
        "id": "orders.**",
        "dlq": "DLQ",
        "dlq_expired": True,
        "nak_limit": 3,
        "redelivery_delay_ms": 100,
        "redelivery_backoff": 1.5,
        "quota": 1000,
        "full_policy": "reject",
        "auto_delete_after_s": 0,
        "groups": {"strategy": "hash-buckets", "bucket_count": 64},
    }
    notes = import_text(core(SETTINGS)).notes
    assert any("redistribution-delay" in note for note in notes)
    assert any("PAGE" in note for note in notes)


ADDRESSES = """
<addresses>
 <address name="plain"><anycast><queue name="plain"/></anycast></address>
 <address name="ring"><anycast>
   <queue name="ring" ring-size="5" max-consumers="1"/></anycast></address>
 <address name="grouped"><anycast>
   <queue name="grouped" group-buckets="8"><filter string="a = 1"/></queue></anycast></address>
 <address name="news"><multicast><queue name="sub"/></multicast></address>
</addresses>
"""


def test_queues_that_say_more_than_their_address_have_entries_of_their_own() -> None:
    found = imported(SETTINGS + ADDRESSES)
    by_name = {entry["id"]: entry for entry in found["queue"]}
    assert "plain" not in by_name
    assert by_name["ring"]["quota_messages"] == 5 and by_name["ring"]["full_policy"] == "drop head"
    assert by_name["grouped"]["groups"] == {"strategy": "hash-buckets", "bucket_count": 8}
    assert by_name["grouped"]["dlq"] == "DLQ"  # inherited
    assert [entry["id"] for entry in found["queue"]][-2:] == ["orders.**", "**"]
    text = import_text(core(SETTINGS + ADDRESSES)).text()
    for noted in ("max-consumers", "its filter 'a = 1'", "queue sub of topic news"):
        assert noted in text


def test_acceptors_of_one_protocol_become_connectors() -> None:
    found = import_text(
        core(
            "<acceptors>"
            '<acceptor name="all">tcp://0.0.0.0:61616?protocols=CORE,AMQP,STOMP</acceptor>'
            '<acceptor name="amqp">tcp://0.0.0.0:5672?protocols=AMQP;useEpoll=true</acceptor>'
            '<acceptor name="stomp">tcp://h:61613?protocols=STOMP;connectionsAllowed=7</acceptor>'
            '<acceptor name="tls">tcp://h:61614?sslEnabled=true;protocols=STOMP</acceptor>'
            '<acceptor name="mqtt">tcp://h:1883?protocols=MQTT</acceptor>'
            "</acceptors>"
        )
    )
    amqp, stomp = found.data()["connector"]
    assert (amqp["id"], amqp["bind"]) == ("amqp", "0.0.0.0:5672")
    assert stomp == {"id": "stomp", "protocol": "stomp", "bind": "h:61613", "connections_max": 7}
    for noted in ("acceptor all", "acceptor tls", "acceptor mqtt"):
        assert any(noted in note for note in found.notes)


def test_users_and_roles_come_from_the_files_beside_it(tmp_path: Path) -> None:
    users = tmp_path / "artemis-users.properties"
    users.write_text("ann = secret\nbob = ENC(1024:AA:BB)\n")
    roles = tmp_path / "artemis-roles.properties"
    roles.write_text("amq = ann, bob\n")
    found = import_text(core("<acceptors/>"), read_beside([users, roles]))
    assert found.data()["user"] == [
        {"name": "ann", "password": "secret", "roles": ["amq"]},
        {"name": "bob", "password": LOCKED, "roles": ["amq"]},
    ]
    assert any("covey user hash" in note and "bob" in note for note in found.notes)


def test_a_placeholder_is_never_taken_for_a_value(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "activemq.xml"
    file.write_text(
        "<simpleAuthenticationPlugin><users>"
        '<authenticationUser username="a" password="${p}"/></users></simpleAuthenticationPlugin>'
    )
    said = terminal.covey("config", "import", str(file))
    assert said.code == 1 and "user[0].password" in said.err and "${p}" in said.err
    values = tmp_path / "values.properties"
    values.write_text("p=hush\n")
    said = terminal.covey("config", "import", str(file), "--properties", str(values))
    assert said.code == 0 and 'password = "hush"' in said.out


def test_what_would_be_more_open_fails_and_is_printed_all_the_same(
    terminal: Terminal, tmp_path: Path
) -> None:
    file = tmp_path / "definitions.json"
    file.write_text(
        '{"vhosts": [{"name": "a"}, {"name": "b"}],'
        ' "permissions": [{"user": "u", "vhost": "a", "write": ".*"}]}'
    )
    said = terminal.covey("config", "import", str(file))
    assert said.code == 1
    assert "[[permission]]" in said.out and "more open" in said.err
    assert '"more_open": [' in terminal.covey("config", "import", str(file), "--json").out


@pytest.mark.parametrize(
    ("size", "read"), [("10Mb", "10M"), ("10 MB", "10M"), ("1GiB", "1G"), ("20K", "20k"),
                       ("2048b", 2048), ("-1", None)]
)  # fmt: skip
def test_sizes_as_artemis_writes_them(size: str, read: object) -> None:
    setting = f"<max-size-bytes>{size}</max-size-bytes>"
    full = "<address-full-policy>BLOCK</address-full-policy>"
    (queue,) = imported(
        f'<address-settings><address-setting match="#">{setting}{full}</address-setting>'
        "</address-settings>"
    )["queue"]
    assert queue.get("quota") == read


def test_a_default_file_s_acceptor_in_the_same_process_is_noted_and_a_port_may_be_missing() -> None:
    found = import_text(
        core(
            '<acceptors><acceptor name="in">vm://0</acceptor>'
            "<acceptor>tcp://h?protocols=STOMP;useEpoll=true</acceptor></acceptors>"
        )
    )
    assert found.data()["connector"] == [{"id": "acceptor", "protocol": "stomp", "bind": "h:61616"}]
    assert any("vm is not spoken" in note for note in found.notes)
    assert any("useEpoll" in note for note in found.notes)


def test_a_template_s_placeholder_is_refused_by_its_place() -> None:
    xml = SETTINGS.replace("FAIL", "${full-policy}").replace("1.5", "${factor}")
    with pytest.raises(ImportRefused, match=r"queue\[0\].*(full-policy|factor)"):
        import_text(core(xml)).text()


def test_other_wildcards_mean_what_the_file_says() -> None:
    words = "<delimiter>/</delimiter><any-words>~</any-words><single-word>+</single-word>"
    entry = '<permission type="send" roles="{}"/></security-setting>'
    data = import_text(
        core(
            f"<wildcard-addresses>{words}</wildcard-addresses><acceptors/><security-settings>"
            f'<security-setting match="~">{entry.format("all")}'
            f'<security-setting match="secret/+">{entry.format("few")}</security-settings>'
        ),
    ).data()
    sends = [(each["who"], each["on"]) for each in data["permission"] if "send" in each["may"]]
    assert sends == [(["role:few"], "secret.*")]


def test_a_whole_file_keeps_out_whom_it_kept_out() -> None:
    whole = "<acceptors/>{}"
    assert import_text(core(whole.format(""))).data()["permission"] == [
        {"who": ["*"], "may": ["connect"], "on": "**"}
    ]
    off = "<security-enabled>false</security-enabled><security-settings/>"
    found = import_text(core(whole.format(off)))
    assert "permission" not in found.data()
    assert found.opens == []  # it was open to everybody; here users log in


@pytest.mark.parametrize("root", ["broker", "management-context"])
def test_the_files_beside_broker_xml_are_told_from_it(root: str) -> None:
    with pytest.raises(ImportRefused, match=r"beside Artemis' broker\.xml"):
        import_text(f'<{root} xmlns="http://activemq.apache.org/schema"><connector/></{root}>')


def test_a_file_of_artemis_with_nothing_that_means_something_here_is_all_notes() -> None:
    found = import_text(core("<ha-policy><live-only/></ha-policy>"))
    assert found.text() == "# Note: without a counterpart: <ha-policy>\n"


QPID = """
Queue Name             Attributes
======================================================================
orders                 --durable --max-queue-count=10 --group-header=ORDER --shared-groups
prices                 --lvq-key=symbol --argument qpid.replicate=none
0db0e8ba-1b1c-4c2e     auto-del excl
"""


def test_a_table_of_qpid_config() -> None:
    found = import_text(QPID)
    orders, prices = found.data()["queue"]
    assert orders["id"] == "orders" and orders["durable"] is True
    assert (orders["quota_messages"], orders["full_policy"]) == (10, "reject")
    assert orders["groups"] == {"strategy": "shared", "header": "ORDER"}
    assert prices["lvq_key"] == "symbol" and prices["durable"] is False
    assert any("belongs to a connection" in note for note in found.notes)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("{", "not JSON"),
        ('{"a": 1}', "not the definitions of RabbitMQ"),
        ("Queue Name  Attributes\nq --wombat=1\n", "queue q"),
    ],
)
def test_what_is_none_of_them_is_refused(text: str, cause: str) -> None:
    with pytest.raises(ImportRefused, match=cause):
        import_text(text)
