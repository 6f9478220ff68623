"""Admin: what an operator sees and may do, whatever protocol asks."""

from __future__ import annotations

import pytest

from covey.config.settings import Settings
from covey.core.broker.broker import Broker
from covey.core.errors import RefusedError
from covey.core.host.subscription import Subscription
from covey.core.management.admin import Admin
from covey.core.management.describe import ATTRIBUTES
from covey.core.management.inspection import canonical
from covey.core.model.consumer import Window
from covey.core.naming.destination import Destination, Kind
from covey.core.security.users import Identity, Principal
from covey.core.session import Session
from tests.doubles import Endless, KnownCluster, Letter, Listener, Reader

OPERATOR = Identity("admin", (Principal("role", "admin"),))
GUEST = Identity("guest")
NOW = 5.0
GROUPED = {"qpid.group_header_key": "G", "qpid.shared_msg_group": 1}


class World:
    """A broker, an operator, and a client with a connection."""

    def __init__(self) -> None:
        self.broker = Broker(Settings())
        self.host = self.broker.host
        self.admin = Admin(self.broker, self.host, OPERATOR)
        self.session: Session = self.broker.open(self.host, GUEST, 1.0)

    def send(self, name: str, group: str = "") -> None:
        message = Letter(10, G=group)
        message.group = group
        self.broker.publishing.publish(self.session, (Destination(Kind.QUEUE, name),), message)
        self.broker.run(NOW)

    def read(self, name: str, credit: int = 10, kind: Kind = Kind.QUEUE) -> Subscription:
        window = Window(credit)
        number = str(len(self.session.subscriptions))
        reader = Subscription(self.session, number, window, lambda: Reader(window, self.session))
        self.broker.subscribe(self.session, reader, (Destination(kind, name),), NOW)
        self.broker.run(NOW)
        return reader


@pytest.fixture
def world() -> World:
    return World()


def code(error: pytest.ExceptionInfo[RefusedError]) -> str:
    return error.value.code


# Queues.


def test_a_declared_queue_has_its_arguments_and_shows_them(world: World) -> None:
    made = world.admin.create("queue", "MyMsgQueue", GROUPED, NOW)
    assert made["arguments"] == GROUPED
    assert made["options"] == ["--durable", "--group-header=G", "--shared-groups"]
    assert (made["strategy"], made["group_header"], made["declared"]) == ("shared", "G", True)
    assert world.admin.read("queue", "MyMsgQueue", NOW) == made


def test_a_declared_queue_is_not_swept_away(world: World) -> None:
    world.admin.create("queue", "kept", {}, NOW)
    world.send("used")
    world.admin.purge("used", NOW)
    world.broker.tick(NOW + 1000)
    assert list(world.host.queues) == ["kept"]


def test_declaring_and_deleting_turn_the_whole_clock(world: World) -> None:
    admin = Admin(world.broker, world.host, OPERATOR)
    clock = world.broker.clock
    admin.declare("a", {}, 60.0)
    assert (clock.now, clock.wall_ms) == (60.0, 60_000)
    admin.delete("queue", "a", 90.0)
    assert (clock.now, clock.wall_ms) == (90.0, 90_000)


def test_a_declared_queue_groups_its_messages(world: World) -> None:
    world.admin.create("queue", "q", GROUPED, NOW)
    world.send("q", "a")
    world.send("q")
    groups = [entity["group"] for entity in world.admin.entities("group", NOW)]
    assert groups == ["a", "qpid.no-group"]


def test_a_queue_whose_dead_letters_nobody_could_read_is_refused(world: World) -> None:
    with pytest.raises(RefusedError, match="queue q: the queue for its dead messages: "):
        world.admin.declare("q", {"alternate-exchange": "a..b"}, NOW)


def test_a_queue_is_declared_once(world: World) -> None:
    world.admin.create("queue", "q", {}, NOW)
    with pytest.raises(RefusedError) as error:
        world.admin.create("queue", "/queue/q", {}, NOW)
    assert code(error) == "exists"


@pytest.mark.parametrize("name", ["", "a,b", "a.*", "/topic/x", "a..b"])
def test_a_queues_name_is_one_name(name: str) -> None:
    with pytest.raises(RefusedError) as error:
        canonical(Kind.QUEUE, name)
    assert code(error) == "invalid"


def test_an_update_changes_what_it_names_and_keeps_the_rest(world: World) -> None:
    world.admin.create("queue", "q", {"qpid.max_count": 5}, NOW)
    world.send("q", "a")
    changed = world.admin.update("queue", "q", {"covey.groups.strategy": "simple"}, NOW)
    assert changed["strategy"] == "simple"
    assert world.host.queues["q"].settings.quota_messages == 5
    world.admin.update("queue", "q", {"qpid.max_count": 1}, NOW)
    with pytest.raises(RefusedError, match="full"):
        world.send("q")


def test_messages_are_never_regrouped(world: World) -> None:
    world.admin.create("queue", "q", {}, NOW)
    world.send("q", "a")
    with pytest.raises(RefusedError, match=r"groups\.header can change only") as error:
        world.admin.update("queue", "q", GROUPED, NOW)
    assert code(error) == "conflict"
    world.admin.purge("q", NOW)
    assert world.admin.update("queue", "q", GROUPED, NOW)["group_header"] == "G"


def test_a_careful_delete_loses_neither_messages_nor_consumers(world: World) -> None:
    world.send("q")
    with pytest.raises(RefusedError, match="holds 1 messages"):
        world.admin.delete("queue", "q", NOW, if_empty=True)
    world.read("q")
    with pytest.raises(RefusedError, match="has 1 consumers"):
        world.admin.delete("queue", "q", NOW, if_unused=True)
    world.admin.delete("queue", "q", NOW)
    assert not world.host.queues


def test_a_purge_leaves_what_somebody_holds(world: World) -> None:
    for _ in range(3):
        world.send("q")
    world.read("q", credit=1)
    assert world.admin.purge("q", NOW).count == 2
    assert world.admin.read("queue", "q", NOW)["messages"] == 1


def test_a_queue_tells_its_first_and_next_number_and_from_which_on_nothing_was_lost(
    world: World,
) -> None:
    for _ in range(3):
        world.send("q")
    world.read("q", credit=1)
    names = ("first_seq", "next_seq", "retained_from")
    before = world.admin.read("queue", "q", NOW)
    assert [before[name] for name in names] == [1, 4, 1]
    world.admin.purge("q", NOW)
    after = world.admin.read("queue", "q", NOW)
    assert [after[name] for name in names] == [1, 4, 4]


# Everything else.


def test_every_type_is_described_by_its_attributes(world: World) -> None:
    world.send("q", "a")
    world.read("q")
    world.read("t", kind=Kind.TOPIC)
    durable = world.host.make_durable("d")
    world.host.bind(durable, (Destination(Kind.TOPIC, "t"),))
    world.broker.jobs.begin(Endless())
    world.broker.shared.cluster = KnownCluster()
    world.admin.create("permission", "p", {"who": ["ann"], "may": ["send"]}, NOW)
    for type_name, attributes in ATTRIBUTES.items():
        entities = world.admin.entities(type_name, NOW)
        assert entities, type_name
        assert tuple(entities[0]) == attributes
        name = str(entities[0]["name"])
        assert world.admin.read(type_name, name, NOW) == entities[0]


def test_a_group_shows_its_owner_and_what_is_unsettled(world: World) -> None:
    world.admin.create("queue", "q", {"covey.groups.strategy": "simple"}, NOW)
    world.read("q", credit=1)
    world.send("q", "a")
    world.send("q", "a")
    (group,) = world.admin.entities("group", NOW)
    assert (group["messages"], group["unsettled"], group["owner"]) == (2, 1, 1)
    assert world.admin.close_group("q", "a", NOW)
    assert not world.admin.close_group("q", "b", NOW)
    world.admin.rebalance("q", NOW)


def test_a_groups_oldest_message_may_be_one_that_is_out(world: World) -> None:
    world.read("q", credit=1)
    world.send("q", "a")
    (group,) = world.admin.entities("group", NOW + 50)
    assert (group["unsettled"], group["oldest_seq"], group["oldest_s"]) == (1, 1, 50.0)
    world.send("q", "a")
    assert world.admin.read("group", "q/a", NOW)["oldest_seq"] == 1


def test_the_brokers_messages_are_those_of_durable_subscriptions_too(world: World) -> None:
    world.host.make_durable("d")
    world.broker.publishing.publish(world.session, (Destination(Kind.DSUB, "d"),), Letter(10))
    world.send("q")
    (broker,) = world.admin.entities("broker", NOW)
    assert (broker["queues"], broker["messages"], broker["bytes"]) == (1, 2, 20)


def test_a_parked_group_stands_still(world: World) -> None:
    world.send("q", "a")
    world.admin.park("q", "a", NOW, parked=True)
    reader = world.read("q")
    assert next(iter(reader.consumers.values())).delivered == 0
    assert world.admin.read("group", "q/a", NOW)["parked"] is True
    world.admin.park("q", "a", NOW, parked=False)
    world.broker.run(NOW)
    assert next(iter(reader.consumers.values())).delivered == 1
    with pytest.raises(RefusedError, match="which group is not said"):
        world.admin.park("q", "", NOW, parked=True)
    with pytest.raises(RefusedError, match="which group is not said"):
        world.admin.group("q", "", NOW)


def test_a_name_that_no_group_can_have_is_not_parked(world: World) -> None:
    world.send("q", "a")
    world.admin.park("q", "\u00e4" * 512, NOW, parked=True)
    with pytest.raises(RefusedError, match="more than 1024 bytes") as error:
        world.admin.park("q", "\u00e4" * 512 + "x", NOW, parked=True)
    assert code(error) == "limit"
    world.admin.park("q", "x" * 10_000, NOW, parked=False)


def test_the_name_of_a_temporary_queue_is_its_connections(world: World) -> None:
    world.send("x", "a")
    with pytest.raises(RefusedError, match="belongs to one connection") as error:
        world.admin.purge("/temp-queue/x", NOW)
    assert code(error) == "invalid"


@pytest.mark.parametrize("name", ["/dsub/d", "dsub:d"])
def test_the_groups_of_a_durable_subscription_are_managed_like_a_queues(
    world: World, name: str
) -> None:
    world.host.make_durable("d")
    reader = next(iter(world.read("d", kind=Kind.DSUB).consumers.values()))
    message = Letter(10)
    message.group = "a"
    world.broker.publishing.publish(world.session, (Destination(Kind.DSUB, "d"),), message)
    world.broker.run(NOW)
    assert world.admin.read("queue", name, NOW)["name"] == "dsub:d"
    assert world.admin.read("group", "dsub:d/a", NOW)["owner"] == reader.id
    world.admin.park(name, "a", NOW, parked=True)
    assert world.admin.group(name, "a", NOW)["parked"]
    assert world.admin.close_group(name, "a", NOW)
    world.admin.rebalance(name, NOW)
    world.admin.retire(name, reader.id, NOW)
    assert reader.is_retiring
    assert world.admin.purge(name, NOW).count == 0
    assert world.admin.trace(name, 0, NOW)["events"] == []
    with pytest.raises(RefusedError):
        world.admin.delete("queue", name, NOW)


def test_managing_a_durable_subscription_asks_about_its_own_name(world: World) -> None:
    world.host.make_durable("d")
    guest = Admin(world.broker, world.host, GUEST)
    with pytest.raises(RefusedError, match="may not manage dsub:d"):
        guest.purge("/dsub/d", NOW)
    with pytest.raises(RefusedError, match="there is no durable subscription nobody"):
        world.admin.rebalance("/dsub/nobody", NOW)


def test_a_retired_consumer_is_shown_as_retiring(world: World) -> None:
    world.read("q")
    world.admin.retire("q", 1, NOW)
    assert world.admin.read("consumer", "q/1", NOW)["retiring"] is True
    with pytest.raises(RefusedError) as error:
        world.admin.retire("q", 99, NOW)
    assert code(error) == "not-found"


def test_a_connection_is_closed_by_its_number(world: World) -> None:
    world.session.client = client = Listener()
    world.admin.delete("connection", str(world.session.id), NOW)
    assert client.kicks == ["closed by admin"]


def test_topics_and_subscriptions_come_and_go(world: World) -> None:
    world.admin.create("topic", "t", {}, NOW)
    world.read("t", kind=Kind.TOPIC)
    with pytest.raises(RefusedError, match="has 1 subscribers"):
        world.admin.delete("topic", "t", NOW, if_unused=True)
    world.admin.delete("topic", "t", NOW)
    world.host.make_durable("d")
    world.admin.delete("subscription", "d", NOW)
    assert not world.host.durables


@pytest.mark.parametrize("type_name", ["queue", "topic", "subscription", "connection", "group"])
def test_what_does_not_exist_is_not_found(world: World, type_name: str) -> None:
    with pytest.raises(RefusedError) as error:
        world.admin.read(type_name, "nosuch", NOW)
    assert code(error) == "not-found"


def test_what_makes_no_sense_is_invalid(world: World) -> None:
    with pytest.raises(RefusedError) as unknown:
        world.admin.entities("planet", NOW)
    with pytest.raises(RefusedError) as uncreatable:
        world.admin.create("connection", "1", {}, NOW)
    with pytest.raises(RefusedError) as fixed:
        world.admin.update("topic", "t", {}, NOW)
    with pytest.raises(RefusedError) as undeletable:
        world.admin.delete("group", "q/a", NOW)
    with pytest.raises(RefusedError) as unheard:
        world.admin.create("queue", "q", {"qpid.nosuch": 1}, NOW)
    for error in (unknown, uncreatable, fixed, undeletable, unheard):
        assert code(error) == "invalid"


def test_a_guest_manages_nothing_but_may_declare(world: World) -> None:
    guest = Admin(world.broker, world.host, GUEST)
    with pytest.raises(RefusedError) as error:
        guest.entities("queue", NOW)
    assert code(error) == "denied"
    with pytest.raises(RefusedError):
        guest.purge("q", NOW)
    assert guest.declare("q", {}, NOW).name == "q"
