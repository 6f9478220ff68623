"""What an operator hears: denials, failed logins, slow consumers, actions, and no more."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pydantic import SecretStr

from covey.config.settings import PermissionSettings, Settings, UserSettings
from covey.core.broker.broker import Broker
from covey.core.broker.rounds import EVERY_S
from covey.core.errors import RefusedError
from covey.core.events.audit import FAILED, OK, REFUSED, OperatorAction, on_record
from covey.core.management.admin import Admin
from covey.core.model.entry import Outcome
from covey.core.queue.policy import close_group
from covey.core.security.users import Verb, authorise
from covey.core.session import Session
from tests.core.support import Bench, policy
from tests.doubles import Heard as Heard
from tests.doubles import Listener

REMOTE = "192.0.2.1:4711"
ANN = UserSettings(name="ann", password=SecretStr("secret"))
ROOT = UserSettings(name="root", password=SecretStr("secret"), roles=("admin",))


def make(**limits: object) -> tuple[Broker, Heard]:
    heard = Heard()
    settings = Settings.model_validate({"broker": limits, "user": (ANN, ROOT)})
    return Broker(settings, audit=heard), heard


def enter(broker: Broker, name: str = "ann") -> Session:
    identity = broker.users.login(name, "secret", is_loopback=False, remote=REMOTE)
    session = broker.open(broker.host, identity, 1.0)
    session.remote = REMOTE
    return session


def test_a_denial_names_user_verb_destination_and_remote() -> None:
    broker, heard = make()
    rule = PermissionSettings(who=("ann",), may=("send",), on="queue:a")
    broker.users.apply((ANN,), (rule,))
    ann = enter(broker).identity
    authorise(ann, Verb.SEND, "queue:a")
    with pytest.raises(RefusedError, match="user ann may not consume queue:a"):
        authorise(ann, Verb.CONSUME, "queue:a")
    assert heard.all == [("denied", "ann", "consume", "queue:a", REMOTE)]


def test_a_failed_login_is_told_with_a_name_only_if_somebody_has_it() -> None:
    broker, heard = make()
    for name in ("ann", "my-password-in-the-wrong-field"):
        with pytest.raises(RefusedError):
            broker.users.login(name, "wrong", is_loopback=True, remote=REMOTE)
    assert heard.all == [("login failed", "ann", REMOTE), ("login failed", "", REMOTE)]


def test_after_too_many_failures_the_right_password_has_to_wait_too() -> None:
    broker, _ = make(login_failures_max=2, login_ban_s=30)
    users = broker.users
    for _ in range(2):
        with pytest.raises(RefusedError, match="wrong user or password"):
            users.login("ann", "wrong", is_loopback=True, remote=REMOTE)
    with pytest.raises(RefusedError, match="too many failed logins, wait 30 s"):
        users.login("ann", "secret", is_loopback=True, remote=REMOTE)
    broker.turn(31.0)
    assert users.login("ann", "secret", is_loopback=True, remote=REMOTE).name == "ann"


def test_a_banned_name_that_nobody_has_gets_the_same_answer() -> None:
    broker, _ = make(login_failures_max=1)
    texts = []
    for number, name in enumerate(("ann", "unheard-of")):
        remote = f"192.0.2.{number}:1"
        for _ in range(2):
            with pytest.raises(RefusedError) as refusal:
                broker.users.login(name, "wrong", is_loopback=True, remote=remote)
        texts.append(refusal.value.text)
    assert texts[0] == texts[1]


def test_a_client_that_does_not_read_is_told_of_once_and_shown() -> None:
    broker, heard = make(slow_consumer_s=10)
    session = enter(broker)
    broker.turn(100.0)
    session.pause()
    broker.tick(105.0)
    assert heard.all == []
    broker.tick(111.0)
    broker.tick(111.0 + EVERY_S)
    assert heard.all == [("slow", "ann", REMOTE, 11.0)]
    admin = Admin(broker, broker.host, broker.users.identity("root", is_loopback=True))
    assert admin.read("connection", str(session.id), 120.0)["unread_s"] == 20.0
    session.unpause()
    assert admin.read("connection", str(session.id), 120.0)["unread_s"] == 0.0


def test_a_client_that_does_not_read_is_cut_off_only_if_that_is_wanted() -> None:
    for is_wanted in (False, True):
        broker, _ = make(slow_consumer_s=10, slow_consumer_kill=is_wanted)
        session = enter(broker)
        session.client = client = Listener()
        broker.turn(100.0)
        session.pause()
        broker.tick(111.0)
        assert client.kicks == (["slow consumer: it has not read for 11 s"] if is_wanted else [])


def test_who_manages_some_queues_manages_no_others_and_not_the_broker() -> None:
    broker, _ = make()
    rule = PermissionSettings(who=("ann",), may=("manage",), on="queue:a.**")
    broker.users.apply((ANN,), (rule,))
    ann = broker.users.identity("ann", is_loopback=True)
    admin = Admin(broker, broker.host, ann)
    for name in ("a.x", "b.x"):
        broker.host.queue(name)
    admin.purge("a.x", 1.0)
    admin.close_group("a.x", "g", 1.0)
    admin.rebalance("a.x", 1.0)
    assert admin.read("queue", "a.x", 1.0)["name"] == "a.x"
    denials: list[Callable[[], object]] = [
        lambda: admin.purge("b.x", 1.0),
        lambda: admin.close_group("b.x", "g", 1.0),
        lambda: admin.rebalance("b.x", 1.0),
        lambda: admin.park("b.x", "g", 1.0, parked=True),
        lambda: admin.retire("b.x", 1, 1.0),
        lambda: admin.read("queue", "b.x", 1.0),
        lambda: admin.read("group", "b.x/g", 1.0),
        lambda: admin.update("queue", "b.x", {}, 1.0),
        lambda: admin.delete("queue", "b.x", 1.0),
        lambda: admin.delete("connection", "1", 1.0),
        lambda: admin.create("topic", "b.x", {}, 1.0),
        lambda: admin.declare("b.y", {}, 1.0),
        lambda: admin.delete_queue("a.x"),
        lambda: admin.entities("queue", 1.0),
    ]
    for denied in denials:
        with pytest.raises(RefusedError) as refusal:
            denied()
        assert refusal.value.code == "denied"


def test_groups_in_trouble_are_told_though_nobody_traces_them() -> None:
    broker, heard = make()
    assert broker.host.queue("q").state.audit is heard
    alone = Bench("lru", policy(park_after_failures=1, cache_size=1, drain_limit_s=5.0), heard)
    alone.queue.state.report_to(None)
    reader = alone.join()
    alone.send_all("ab")
    alone.pump()
    alone.settle(reader, 1, outcome=Outcome.FAILED)
    alone.send("b")
    alone.join()
    close_group(alone.queue, "b", alone.now)
    alone.send("b")
    alone.pump()
    alone.wait(6)
    assert [line[2:] for line in heard.all] == [
        ("groups-over-size", ""),
        ("park", "a"),
        ("drain-overdue", "b"),
    ]


# On record: what came of an action is told once, and whoever raised is not kept from it.

PURGE = OperatorAction("ann", "192.0.2.1:1", "http", "purge", "queue", "default", "a")


def test_what_was_done_is_told_with_its_cost() -> None:
    heard = Heard()
    with on_record(heard, PURGE) as cost:
        assert heard.actions == []
        cost.count = 3
    (told,) = heard.actions
    assert (told.user, told.action, told.result, told.count) == ("ann", "purge", OK, 3)


@pytest.mark.parametrize(
    ("error", "result", "reason"),
    [
        (RefusedError("there is no queue a", "not-found"), REFUSED, "there is no queue a"),
        (KeyError("a"), FAILED, "KeyError: 'a'"),
    ],
)
def test_what_was_not_done_is_told_with_the_reason(
    error: Exception, result: str, reason: str
) -> None:
    heard = Heard()
    with pytest.raises(type(error)), on_record(heard, PURGE):
        raise error
    (told,) = heard.actions
    assert (told.result, told.reason, told.count) == (result, reason, None)
