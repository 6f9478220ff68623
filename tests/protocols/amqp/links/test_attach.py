"""Links: what an address leads to, what is refused, and what outlives a link."""

from __future__ import annotations

import pytest
from proton import Described, Message, Terminus, symbol, ulong

from covey.config.settings import AmqpSettings
from covey.core.broker.broker import Broker
from covey.core.management.admin import Admin
from covey.core.security.users import Identity, Principal
from tests.core.support import depth
from tests.protocols.amqp.peer import OPEN_TO_ALL, Peer, make_broker

ADMIN = ("admin", "password")
ROOT = Identity("root", (Principal("role", "admin"),))


@pytest.fixture
def broker() -> Broker:
    return make_broker()


@pytest.mark.parametrize("address", ["x", "queue://x", "/queue/x", "/queues/x"])
def test_every_spelling_of_a_queue_means_the_same_queue(broker: Broker, address: str) -> None:
    peer = Peer(broker)
    peer.send(peer.sender(address), "hello")
    assert list(broker.host.queues) == ["x"]
    link = peer.receiver("x")
    assert peer.bodies() == ["hello"]
    assert link.remote_source.address == "x"


@pytest.mark.parametrize("address", ["topic://x", "/topic/x", "/topics/x"])
def test_every_spelling_of_a_topic_means_the_same_topic(broker: Broker, address: str) -> None:
    peer = Peer(broker)
    peer.receiver("/topic/x")
    sender = peer.sender(address)
    assert sender.remote_target.address == address
    peer.send(sender, "news")
    assert peer.bodies() == ["news"]
    assert not broker.host.queues


def test_the_capability_topic_makes_a_bare_name_a_topic(broker: Broker) -> None:
    peer = Peer(broker)
    peer.receiver("x", name="a", capabilities=[symbol("topic")])
    peer.receiver("x", name="b", capabilities=[symbol("topic")])
    peer.send(peer.sender("x", capability="topic"), "news")
    assert peer.bodies() == ["news", "news"]


def test_a_pattern_reads_from_queues_made_later(broker: Broker) -> None:
    peer = Peer(broker)
    peer.receiver("orders.*")
    peer.send(peer.sender("orders.eu"), "1")
    assert peer.bodies() == ["1"]
    assert peer.sender("orders.*").remote_target.address is None
    assert peer.conditions == ["amqp:invalid-field"]


def test_a_refused_link_has_no_terminus_and_says_why(broker: Broker) -> None:
    peer = Peer(broker)
    link = peer.receiver("nosuch://x")
    assert link.remote_source.address is None
    assert peer.conditions == ["amqp:invalid-field"]
    assert "unknown prefix" in str(peer.errors[0].description)


def test_without_auto_create_an_unknown_name_is_not_found() -> None:
    broker = make_broker(broker={"auto_create": False})
    peer = Peer(broker)
    peer.sender("x")
    peer.receiver("x")
    assert peer.conditions == ["amqp:not-found", "amqp:not-found"]
    assert not broker.host.queues


def test_links_are_counted() -> None:
    peer = Peer(make_broker(), AmqpSettings(allow_anonymous=True, links_max=2))
    for number in range(3):
        peer.sender(f"q{number}")
    assert peer.conditions == ["amqp:resource-limit-exceeded"]


def test_a_subscription_that_asks_for_copies_consumes_them(broker: Broker) -> None:
    peer = Peer(broker, container="jms")
    peer.receiver("topic://t", name="s", durable=True, copy=True)
    peer.send(peer.sender("topic://t"), "news")
    peer.settle(peer.messages[0][0])
    (durable,) = broker.host.durables.values()
    assert depth(durable.queue) == 0


def test_a_link_to_what_one_may_not_send_to_is_refused_when_it_attaches() -> None:
    permissions = (
        {"who": ["*"], "may": ["connect", "consume", "create"], "on": "**"},
        {"who": ["*"], "may": ["send"], "on": "queue:mine.**"},
    )
    broker = make_broker(permission=permissions, user=({"name": "guest", "password": "guest"},))
    peer = Peer(broker, login=("guest", "guest"))
    assert peer.sender("mine.1").remote_target.address == "mine.1"
    for address in ("yours", "topic://mine.1", "mine.1,yours"):
        assert peer.sender(address).remote_target.address is None
    assert peer.conditions == ["amqp:unauthorized-access"] * 3
    assert list(broker.host.queues) == []


# Dynamic nodes and the anonymous relay.


def test_a_dynamic_node_is_read_by_its_connection_and_sent_to_by_all(broker: Broker) -> None:
    asker, other = Peer(broker), Peer(broker, container="other")
    link = asker.receiver(None, dynamic=True)
    address = link.remote_source.address
    assert address
    assert address.startswith("temp.")
    other.send(other.sender(address), "reply")
    assert asker.bodies() == []
    asker.pump()
    assert asker.bodies() == ["reply"]
    other.receiver(address)
    assert other.conditions == ["amqp:unauthorized-access"]


def test_a_dynamic_node_goes_with_its_link_and_with_its_connection(broker: Broker) -> None:
    peer = Peer(broker)
    link = peer.receiver(None, dynamic=True, name="one")
    peer.receiver(None, dynamic=True, name="two")
    assert len(broker.host.queues) == 2
    link.close()
    peer.pump()
    assert len(broker.host.queues) == 1
    peer.lose()
    assert not broker.host.queues


def test_a_dynamic_target_is_a_queue_of_the_senders_own(broker: Broker) -> None:
    peer = Peer(broker)
    link = peer.session.sender("s")
    link.target.dynamic = True
    link.open()
    peer.pump()
    peer.send(link, "hello")
    peer.receiver(link.remote_target.address)
    assert peer.bodies() == ["hello"]


def test_without_a_target_each_message_names_its_own(broker: Broker) -> None:
    peer = Peer(broker)
    sender = peer.sender(None)
    peer.send(sender, Message(body="1", address="a"))
    peer.send(sender, Message(body="2", address="topic://b"))
    lost = peer.send(sender, Message(body="3"))
    assert lost.remote_state == lost.REJECTED
    assert list(broker.host.queues) == ["a"]
    assert list(broker.host.topics) == ["b"]


# Filters and modes.


@pytest.mark.parametrize(
    "descriptor", [symbol("apache.org:selector-filter:string"), ulong(0x0000468C00000004)]
)
def test_a_selector_filter_holds_by_name_and_by_number(
    broker: Broker, descriptor: symbol | ulong
) -> None:
    peer = Peer(broker)
    filters = {
        symbol("jms-selector"): Described(descriptor, "colour = 'red'"),
        symbol("unknown"): Described(symbol("example:filter"), "x"),
    }
    link = peer.receiver("q", filters=filters)
    data = link.remote_source.filter
    data.rewind()
    data.next()
    assert list(data.get_object()) == ["jms-selector"]
    sender = peer.sender("q")
    peer.send(sender, Message(body="1", properties={"colour": "blue"}))
    peer.send(sender, Message(body="2", properties={"colour": "red"}))
    assert peer.bodies() == ["2"]


def test_a_bad_selector_refuses_the_link(broker: Broker) -> None:
    peer = Peer(broker)
    described = Described(symbol("apache.org:selector-filter:string"), "colour = ")
    peer.receiver("q", filters={symbol("s"): described})
    assert peer.conditions == ["amqp:invalid-field"]


def test_no_local_hides_a_connections_own_messages(broker: Broker) -> None:
    peer, other = Peer(broker), Peer(broker, container="other")
    described = Described(symbol("apache.org:no-local-filter:list"), [])
    peer.receiver("/topic/t", filters={symbol("no-local"): described})
    peer.send(peer.sender("/topic/t"), "own")
    other.send(other.sender("/topic/t"), "foreign")
    peer.pump()
    assert peer.bodies() == ["foreign"]


def test_a_copying_link_browses_and_takes_nothing(broker: Broker) -> None:
    peer = Peer(broker)
    sender = peer.sender("q")
    for number in "123":
        peer.send(sender, number)
    peer.receiver("q", copy=True, name="browser")
    assert peer.bodies() == ["1", "2", "3"]
    for delivery, _ in list(peer.messages):
        peer.settle(delivery)
    peer.receiver("q", name="consumer")
    assert peer.bodies() == ["1", "2", "3"] * 2
    assert depth(broker.host.queues["q"]) == 3


def test_a_copying_link_sees_of_shared_groups_what_nobody_holds(broker: Broker) -> None:
    peer, other = Peer(broker), Peer(broker, container="other")
    admin = Admin(broker, broker.host, ROOT)
    admin.declare("q", {"qpid.group_header_key": "G", "qpid.shared_msg_group": 1}, 0.0)
    sender = peer.sender("q")
    peer.send(sender, "held")
    other.receiver("q", credit=1)
    assert other.bodies() == ["held"]
    peer.send(sender, "free")
    peer.receiver("q", copy=True)
    assert peer.bodies() == ["free"]


def test_browsing_never_settles_what_somebody_else_holds(broker: Broker) -> None:
    peer, other = Peer(broker), Peer(broker, container="other")
    peer.send(peer.sender("q"), "1")
    other.receiver("q")
    peer.receiver("q", copy=True)
    peer.settle(peer.messages[0][0])
    assert depth(broker.host.queues["q"]) == 1
    other.settle(other.messages[0][0])
    assert depth(broker.host.queues["q"]) == 0


# Durable and shared subscriptions.


def test_a_durable_subscription_outlives_its_connection(broker: Broker) -> None:
    first = Peer(broker, container="c")
    first.receiver("/topic/t", name="sub", durable=True)
    first.lose()
    other = Peer(broker, container="other")
    other.send(other.sender("/topic/t"), "missed")
    again = Peer(broker, container="c")
    again.receiver("/topic/t", name="sub", durable=True)
    assert again.bodies() == ["missed"]
    stranger = Peer(broker, container="d")
    stranger.receiver("/topic/t", name="sub", durable=True)
    assert stranger.bodies() == []


def test_a_detached_durable_subscription_stays_and_a_closed_one_goes(broker: Broker) -> None:
    peer = Peer(broker, container="c")
    link = peer.receiver("/topic/t", name="sub", durable=True)
    link.detach()
    peer.pump()
    assert len(broker.host.durables) == 1
    again = Peer(broker, container="c")
    link = again.receiver("/topic/t", name="sub", durable=True)
    link.close()
    again.pump()
    assert not broker.host.durables


def test_an_attach_without_a_source_finds_a_durable_subscription_to_end_it(
    broker: Broker,
) -> None:
    peer = Peer(broker, container="c")
    peer.receiver("/topic/t", name="sub", durable=True).detach()
    peer.pump()
    link = Peer(broker, container="c")
    found = link.receiver(None, name="sub", credit=0)
    assert found.remote_source.address == "t"
    found.close()
    link.pump()
    assert not broker.host.durables
    link.receiver(None, name="nosuch", credit=0)
    assert link.conditions == ["amqp:not-found"]


@pytest.mark.parametrize("is_durable", [True, False])
def test_links_of_a_shared_subscription_share_its_messages(
    broker: Broker, is_durable: bool
) -> None:
    shared = [symbol("shared"), symbol("global")]
    one, two = Peer(broker, container="one"), Peer(broker, container="two")
    for number, peer in enumerate((one, two)):
        peer.receiver(
            "/topic/t", name=f"sub|{number}", credit=1, capabilities=shared, durable=is_durable
        )
    sender = one.sender("/topic/t")
    one.send(sender, "1")
    one.send(sender, "2")
    two.pump()
    assert sorted(one.bodies() + two.bodies()) == ["1", "2"]
    one.lose()
    two.lose()
    assert len(broker.host.durables) == is_durable


# Taking over.


def test_the_same_container_and_link_name_takes_the_link_over(broker: Broker) -> None:
    old = Peer(broker, container="c")
    old.receiver("q", name="link")
    old.send(old.sender("q"), "1")
    new = Peer(broker, container="c")
    new.receiver("q", name="link")
    old.pump()
    assert old.conditions == ["amqp:link:stolen"]
    assert new.bodies() == ["1"]


def test_another_users_link_is_not_taken_over(broker: Broker) -> None:
    old = Peer(broker, container="c", login=ADMIN)
    old.receiver("q", name="link")
    Peer(broker, container="c").receiver("q", name="link")
    old.pump()
    assert old.conditions == []


def test_a_deleted_queue_ends_its_links(broker: Broker) -> None:
    peer = Peer(broker)
    peer.receiver("q")
    broker.host.delete_queue("q", "an operator deleted it")
    peer.pump()
    assert peer.conditions == ["amqp:resource-deleted"]


def test_a_link_that_ends_gives_back_what_it_held_uncounted(broker: Broker) -> None:
    peer = Peer(broker)
    link = peer.receiver("q")
    peer.send(peer.sender("q"), "1")
    link.close()
    peer.pump()
    peer.receiver("q", name="again")
    assert peer.bodies() == ["1", "1"]
    assert peer.messages[1][1].delivery_count == 0


def test_a_lost_connection_counts_as_a_try(broker: Broker) -> None:
    first = Peer(broker)
    first.receiver("q")
    first.send(first.sender("q"), "1")
    first.lose()
    again = Peer(broker)
    again.receiver("q")
    assert again.messages[0][1].delivery_count == 1


def test_a_null_target_is_refused(broker: Broker) -> None:
    peer = Peer(broker, OPEN_TO_ALL)
    link = peer.session.sender("s")
    link.target.type = Terminus.UNSPECIFIED
    link.open()
    peer.pump()
    assert peer.conditions == ["amqp:invalid-field"]
