"""Other brokers' configurations, from the snippets of their manuals to whole files."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from covey.cli.importers.imported import ImportRefused
from covey.cli.importers.importer import import_text


def imported(text: str) -> dict[str, Any]:
    return tomllib.loads(import_text(text).text())


def policy(entry: str) -> str:
    """Put an entry into the frame that every snippet of ActiveMQ's message groups page has."""
    return (
        f"<destinationPolicy><policyMap><policyEntries>{entry}"
        "</policyEntries></policyMap></destinationPolicy>"
    )


SIMPLE = """
      <policyEntry queue=">">
          <messageGroupMapFactory>
            <simpleMessageGroupMapFactory/>
          </messageGroupMapFactory>
      </policyEntry>
"""
# Misspelt, and not XML, as it stands on the page.
BUCKED = (Path(__file__).parent / "bucked.xml").read_text()


@pytest.mark.parametrize(
    ("entry", "groups"),
    [
        (
            '<policyEntry queue=">" timeBeforeDispatchStarts="200"/>',
            {"time_before_dispatch_ms": 200},
        ),
        (
            '<policyEntry queue=">" consumersBeforeDispatchStarts="2"'
            ' timeBeforeDispatchStarts="2000"/>',
            {"consumers_before_dispatch": 2, "time_before_dispatch_ms": 2000},
        ),
        (SIMPLE, {"strategy": "simple"}),
        (BUCKED, {"strategy": "hash-buckets", "cache_size": 1024}),
        (
            '<policyEntry queue=">" messageGroupMapFactoryType="bucket?bucketCount=64"/>',
            {"strategy": "hash-buckets", "bucket_count": 64},
        ),
    ],
)
def test_the_group_pages_snippets(entry: str, groups: dict[str, Any]) -> None:
    text = entry if entry is BUCKED else policy(entry)
    assert imported(text) == {"queue": [{"id": "**", "groups": groups}]}


def test_the_page_size_snippet_needs_nothing_here_and_says_so() -> None:
    text = import_text(policy('<policyEntry queue=">" maxPageSize="1000"/>')).text()
    assert text.startswith("# Note: maxPageSize is not needed")
    assert tomllib.loads(text) == {"queue": [{"id": "**"}]}


def test_forgotten_quotes_are_noted() -> None:
    assert "# Note: attributes without quotes" in import_text(BUCKED).text()


def test_the_apollo_stomp_manuals_connector() -> None:
    assert imported("""
    <connector id="tcp" bind="tcp://0.0.0.0:61613">
      <stomp max_header_length="10000">
        <add_user_header separator=",">user</add_user_header>
      </stomp>
    </connector>
    """) == {
        "connector": [
            {
                "id": "tcp",
                "protocol": "stomp",
                "bind": "0.0.0.0:61613",
                "stomp": {
                    "max_header_length": 10000,
                    "add_user_header": [{"header": "user", "separator": ","}],
                },
            }
        ]
    }


APOLLO = """
<broker xmlns="http://activemq.apache.org/schema/activemq/apollo">
  <notes>The default configuration</notes>
  <virtual_host id="mine">
    <host_name>localhost</host_name>
    <host_name>broker.example</host_name>
    <queue id="orders.**" dlq="dead.*" nak_limit="3" quota="10M" full_policy="drop head"
           auto_delete_after="60" swap="true" tail_buffer="1M"
           message_group_graceful_handoff="false"/>
    <topic id="news.**" slow_consumer_policy="queue"/>
    <leveldb_store directory="data"/>
  </virtual_host>
  <access_rule allow="*" action="connect"/>
  <connector id="tcp" bind="tcp://127.0.0.1:61613" connection_limit="200">
    <stomp die_delay="1000" queue_prefix="/q/"/>
  </connector>
  <connector id="tls" bind="tls://127.0.0.1:61614"/>
</broker>
"""


def test_a_whole_apollo_file() -> None:
    found = imported(APOLLO)
    (queue,) = found["queue"]
    assert queue == {
        "id": "orders.**",
        "dlq": "dead.*",
        "nak_limit": 3,
        "quota": "10M",
        "full_policy": "drop head",
        "auto_delete_after_s": 60,
    }
    assert found["virtual_host"] == [{"id": "mine", "host_names": ["localhost", "broker.example"]}]
    assert found["topic"] == [{"id": "news.**", "slow_consumer_policy": "queue"}]
    (connector,) = found["connector"]
    assert connector["connections_max"] == 200
    assert connector["stomp"] == {"die_delay_ms": 1000, "queue_prefix": "/q/"}
    notes = import_text(APOLLO).notes
    for left_out in (
        "<queue swap>",
        "<queue tail_buffer>",
        "graceful_handoff",
        "<leveldb_store>",
        "connector tls",
    ):
        assert any(left_out in note for note in notes)


ACTIVEMQ = """<?xml version="1.0" encoding="UTF-8"?>
<beans xmlns="http://www.springframework.org/schema/beans">
 <broker xmlns="http://activemq.apache.org/schema/core">
  <destinationPolicy><policyMap><policyEntries>
    <policyEntry queue=">" memoryLimit="64mb" optimizedDispatch="true"/>
    <policyEntry queue="ORDERS.>" messageGroupMapFactoryType="cached?cacheSize=99"/>
    <policyEntry queue="ORDERS.EU" prioritizedMessages="true">
      <deadLetterStrategy>
        <individualDeadLetterStrategy queuePrefix="DLQ." processExpired="false"/>
      </deadLetterStrategy>
    </policyEntry>
    <policyEntry topic=">"/>
  </policyEntries></policyMap></destinationPolicy>
  <plugins><simpleAuthenticationPlugin><users>
    <authenticationUser username="system" password="manager" groups="users,admins"/>
  </users></simpleAuthenticationPlugin></plugins>
  <transportConnectors>
    <transportConnector name="openwire" uri="tcp://0.0.0.0:61616"/>
    <transportConnector name="amqp" uri="amqp://0.0.0.0:5672?maximumConnections=1000"/>
    <transportConnector name="stomp" uri="stomp+nio://0.0.0.0:61613"/>
  </transportConnectors>
 </broker>
</beans>
"""


def test_a_whole_activemq_file_with_the_best_match_first() -> None:
    found = imported(ACTIVEMQ)
    assert found["queue"] == [
        {"id": "ORDERS.EU", "priorities": 10, "dlq": "DLQ.*", "dlq_expired": False},
        {"id": "ORDERS.**", "groups": {"strategy": "lru", "cache_size": 99}},
        {"id": "**", "quota": "64M"},
    ]
    assert [entry["id"] for entry in found["topic"]] == ["**"]
    assert found["user"] == [{"name": "system", "password": "manager", "roles": ["users", "admin"]}]
    amqp, stomp = found["connector"]
    assert (amqp["bind"], amqp["connections_max"]) == ("0.0.0.0:5672", 1000)
    assert (stomp["id"], stomp["protocol"]) == ("stomp", "stomp")
    notes = import_text(ACTIVEMQ).notes
    assert any("openwire" in note for note in notes)
    assert any("optimizedDispatch" in note for note in notes)


ENTITIES = (
    '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><connector id="&b;" bind="tcp://h:1"/>'
)
FILES = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/hostname">]><queue id="&a;"/>'


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (ENTITIES, "entities are not read"),
        (FILES, "entities are not read"),
        ("not xml", "not XML"),
        ("<queue id=''", "not XML"),
        ("<beans/>", "neither Apollo, ActiveMQ nor Artemis"),
        ("<queue quota='lots'/>", "quota"),
        ("<policyEntry><messageGroupMapFactory><wombat/></messageGroupMapFactory></policyEntry>",
         "<wombat> is no message group map"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(text: str, cause: str) -> None:
    with pytest.raises(ImportRefused, match=cause):
        import_text(text).text()


def test_apollos_durable_subscriptions_become_queues_of_that_name() -> None:
    xml = '<virtual_host id="v"><dsub id="bob" topic="news" quota="5M"/></virtual_host>'
    assert imported(xml)["queue"] == [{"id": "dsub:bob", "quota": "5M"}]
    assert any("<dsub topic>" in note for note in import_text(xml).notes)


def test_groups_of_a_queue_with_priorities_are_noted_and_left_out() -> None:
    xml = '<policyEntry queue="a" prioritizedMessages="true" messageGroupMapFactoryType="simple"/>'
    assert imported(xml)["queue"] == [{"id": "a", "priorities": 10}]
    assert any("queue with priorities" in note for note in import_text(xml).notes)


@pytest.mark.parametrize(
    ("xml", "noted"),
    [
        (
            "<broker><plugins><authorizationPlugin/></plugins><transportConnectors/></broker>",
            "nobody but an admin may do anything",
        ),
        (
            '<broker><virtual_host><access_rule deny="joe"/></virtual_host></broker>',
            "nobody but an admin may do anything",
        ),
        (
            "<broker><systemUsage/><destinationPolicy/><transportConnectors/></broker>",
            "<systemUsage>: memory_limit",
        ),
        (
            policy('<policyEntry topic="a"><pendingMessageLimitStrategy/></policyEntry>'),
            "<pendingMessageLimitStrategy> of a policyEntry",
        ),
        (
            policy(
                '<policyEntry queue="a"><deadLetterStrategy><sharedDeadLetterStrategy/>'
                "</deadLetterStrategy></policyEntry>"
            ),
            "nak_limit",
        ),
        ('<transportConnector name="s" uri="stomp+ssl://h:1"/>', "certificate and key"),
        ('<connector id="s" bind="tls://h:1"/>', "certificate and key"),
        ('<transportConnector name="s" uri="stomp://h:1?trace=true"/>', "s: trace has no"),
        ('<connector id="s" bind="tcp://h:1"/>', "no connector speaks amqp"),
    ],
)
def test_nothing_is_left_out_without_a_note(xml: str, noted: str) -> None:
    assert noted in import_text(xml).text()
