"""Every verb on every spelling of a destination, by every sort of user: one matrix.

The oracle is a table of its own: for each user the verbs allowed on `secret` names; all of them
may do everything to `open` ones. So an alias, a composite or a temporary name that slips past a
check shows up as a frame that should have been refused.
"""

from __future__ import annotations

import itertools

import pytest
from pydantic import SecretStr

from covey.config.settings import PermissionSettings, UserSettings
from tests.protocols.stomp.support import Client, World

ALL = frozenset(["create", "send", "consume", "browse", "destroy"])

# User -> what they may do to secret destinations.
MAY: dict[str, frozenset[str]] = {
    "nobody": frozenset(),
    "sender": frozenset(["send"]),
    "reader": frozenset(["consume"]),
    "viewer": frozenset(["browse"]),
    "breaker": frozenset(["destroy"]),
    "owner": ALL,
    "admin": ALL,
}

# Spelling -> whether it means a queue, a topic or a durable subscription.
SPELLINGS = {
    "/queue/secret.a": "queue",
    "/queues/secret.a": "queue",
    "queue://secret.a": "queue",
    "secret.a": "queue",
    "/queue/secret.%61": "queue",
    "/queue/open.a,/queue/secret.a": "queue",
    "/queue/secret.a,/topic/open.a": "queue",
    "/topic/secret.a": "topic",
    "/topics/secret.a": "topic",
    "topic://secret.a": "topic",
    "/topic/open.a,/topic/secret.a": "topic",
    "/dsub/secret-d": "dsub",
    "/queue/open.a,/dsub/secret-d": "dsub",
}
NEW = {"/queue/secret.new": "queue", "/topic/secret.new": "topic"}


def world() -> World:
    """Everything named exists; users have the rights of the table."""
    users = [
        UserSettings(
            name=name,
            password=SecretStr("password"),
            roles=("admin",) if name == "admin" else (),
        )
        for name in MAY
    ]
    made = World(users=users)
    admin = made.connect(login="admin")
    admin.send("SEND", {"destination": "/queue/secret.a"}, "x")
    admin.send("SEND", {"destination": "/queue/open.a"}, "x")
    for name in ("secret", "open"):
        topic = f"/topic/{name}.a"
        durable = {"id": f"{name}-d", "destination": topic, "persistent": "true"}
        admin.send("SUBSCRIBE", durable)
        admin.send("UNSUBSCRIBE", {"id": f"{name}-d"})
    made.broker.users.apply(users, rules())
    return made


def rules() -> list[PermissionSettings]:
    """Write the table as `[[permission]]` entries."""
    given: list[dict[str, object]] = [{"who": "*", "may": ["connect"]}]
    given += [{"who": "*", "may": ["*"], "on": on} for on in ("open.**", "dsub:open-*")]
    given += [
        {"who": name, "may": sorted(verbs), "on": on}
        for name, verbs in MAY.items()
        for on in ("queue:secret.**", "topic:secret.**", "dsub:secret-*")
    ]
    return [PermissionSettings.model_validate(entry) for entry in given]


def is_refused(client: Client) -> bool:
    errors = [frame for frame in client.inbox if frame.command == "ERROR"]
    assert all(error["covey-code"] == "denied" for error in errors), errors
    return bool(errors)


@pytest.mark.parametrize(("user", "spelling"), list(itertools.product(MAY, SPELLINGS | NEW)))
def test_send_needs_send_and_create(user: str, spelling: str) -> None:
    client = world().connect(login=user)
    client.send("SEND", {"destination": spelling}, "x")
    needed = {"send", "create"} if spelling in NEW else {"send"}
    assert is_refused(client) == (not needed <= MAY[user])


@pytest.mark.parametrize(("user", "spelling"), list(itertools.product(MAY, SPELLINGS | NEW)))
def test_subscribe_needs_consume_and_create(user: str, spelling: str) -> None:
    client = world().connect(login=user)
    client.send("SUBSCRIBE", {"id": "s", "destination": spelling})
    needed = {"consume", "create"} if spelling in NEW else {"consume"}
    assert is_refused(client) == (not needed <= MAY[user])


QUEUES = [text for text, kind in SPELLINGS.items() if kind != "topic" and "/topic" not in text]


@pytest.mark.parametrize(("user", "spelling"), list(itertools.product(MAY, QUEUES)))
def test_a_browser_needs_browse(user: str, spelling: str) -> None:
    client = world().connect(login=user)
    client.send("SUBSCRIBE", {"id": "s", "destination": spelling, "browser": "true"})
    assert is_refused(client) == ("browse" not in MAY[user])


@pytest.mark.parametrize(("user", "is_known"), list(itertools.product(MAY, [True, False])))
def test_a_durable_subscription_needs_consume_and_a_new_one_create(
    user: str, is_known: bool
) -> None:
    client = world().connect(login=user)
    name = "secret-d" if is_known else "secret-new"
    wanted = {"id": name, "destination": "/topic/secret.a", "persistent": "true"}
    client.send("SUBSCRIBE", wanted)
    needed = {"consume"} if is_known else {"consume", "create"}
    assert is_refused(client) == (not needed <= MAY[user])


@pytest.mark.parametrize("user", MAY)
def test_a_durable_subscriptions_messages_need_a_right_to_it_not_to_some_topic(user: str) -> None:
    client = world().connect(login=user)
    wanted = {"id": "secret-d", "destination": "/topic/open.a", "persistent": "true"}
    client.send("SUBSCRIBE", wanted)
    assert is_refused(client) == (not {"consume", "create"} <= MAY[user])


@pytest.mark.parametrize("user", MAY)
def test_to_end_a_durable_subscription_needs_destroy(user: str) -> None:
    made = world()
    client = made.connect(login=user)
    client.send("UNSUBSCRIBE", {"id": "secret-d", "persistent": "true"})
    is_destroyed = "secret-d" not in made.broker.host.durables
    assert is_refused(client) != is_destroyed
    assert is_destroyed == ("destroy" in MAY[user])


@pytest.mark.parametrize("user", MAY)
def test_a_wildcard_shows_only_what_its_user_may_read(user: str) -> None:
    made = world()
    client = made.connect(login=user)
    client.send("SUBSCRIBE", {"id": "s", "destination": "/queue/*.a", "ack": "client"})
    got = {frame["destination"] for frame in client.inbox if frame.command == "MESSAGE"}
    expected = {"/queue/open.a", "/queue/secret.a"}
    assert got == (expected if "consume" in MAY[user] else {"/queue/open.a"})


@pytest.mark.parametrize("user", MAY)
def test_a_transaction_is_checked_when_it_is_committed(user: str) -> None:
    made = world()
    client = made.connect(login=user)
    client.send("BEGIN", {"transaction": "t"})
    for place in ("/queue/open.a", "/queue/secret.a"):
        client.send("SEND", {"destination": place, "transaction": "t"}, "x")
    client.send("COMMIT", {"transaction": "t"})
    assert is_refused(client) == ("send" not in MAY[user])
    assert made.depth("/queue/open.a") == (2 if "send" in MAY[user] else 1)


def test_a_login_that_failed_is_answered_late_and_the_answer_never_says_why() -> None:
    made = world()
    answers = []
    for login, passcode in (("sender", "wrong"), ("unheard-of", "wrong"), ("", "")):
        client = made.stranger()
        client.send("CONNECT", {"login": login, "passcode": passcode})
        assert client.engine.answer_delay_s == made.broker.limits.login_failed_wait_s > 0
        answers.append(client.take("ERROR").headers)
    assert answers[0] == answers[1] == answers[2]
    assert made.connect(login="sender").engine.answer_delay_s == 0
