"""Who may do what, over from other brokers: never more than before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from covey.cli.importers.access import covers, overlap
from covey.cli.importers.imported import LOCKED, ImportRefused
from covey.cli.importers.importer import import_text
from covey.cli.importers.properties import read_beside
from covey.cli.importers.rabbitmq import patterns_of
from covey.config.settings import Settings
from covey.core.security.passwords import parse_record
from covey.core.security.permissions import Access, compile_permissions


def may(data: dict[str, Any], who: str, verb: str, destination: str) -> bool:
    """Ask the real permissions about a role, or about a user without any."""
    settings = Settings.model_validate(data)
    access = Access(frozenset({"user:somebody", who}))
    access.apply(compile_permissions(settings.permissions))
    return access.allows(verb, destination)


ACTIVEMQ = """
<broker><plugins>
 <simpleAuthenticationPlugin><users>
  <authenticationUser username="boss" password="${boss.password}" groups="admins"/>
 </users></simpleAuthenticationPlugin>
 <authorizationPlugin><map><authorizationMap><authorizationEntries>
  <authorizationEntry queue=">" read="admins" write="admins" admin="admins"/>
  <authorizationEntry queue="USERS.>" read="users" write="users" admin="users"/>
  <authorizationEntry queue="GUEST.>" read="guests" write="guests,users" admin="users"/>
  {topics}
 </authorizationEntries></authorizationMap></map></authorizationPlugin>
</plugins></broker>
"""
TOPICS = '<authorizationEntry topic=">" read="admins" write="admins" admin="admins"/>'


@pytest.mark.parametrize(
    ("role", "verb", "destination", "is_allowed"),
    [
        ("users", "consume", "queue:USERS.a", True),
        ("users", "consume", "queue:USERS", True),
        ("users", "consume", "queue:GUEST.a", False),
        ("users", "send", "queue:GUEST.a", True),
        ("users", "consume", "queue:other", False),
        ("guests", "create", "queue:GUEST.a", False),
        ("guests", "consume", "topic:GUEST.a", False),
        ("guests", "manage", "queue:GUEST.a", False),
        ("guests", "consume", "queue:temp.default.1", True),
    ],
)
def test_activemqs_entries_allow_what_they_allowed(
    tmp_path: Path, role: str, verb: str, destination: str, is_allowed: bool
) -> None:
    beside = tmp_path / "credentials.properties"
    beside.write_text("# secret\nboss.password = hush\n")
    found = import_text(ACTIVEMQ.replace("{topics}", TOPICS), read_beside([beside]))
    data = found.data()
    assert may(data, f"role:{role}", verb, destination) is is_allowed
    assert data["user"] == [{"name": "boss", "password": "hush", "roles": ["admin"]}]
    assert found.opens == []


def test_a_group_admins_that_may_not_do_everything_is_not_our_admin(tmp_path: Path) -> None:
    beside = tmp_path / "c.properties"
    beside.write_text("boss.password=hush\n")
    found = import_text(ACTIVEMQ.replace("{topics}", ""), read_beside([beside]))
    assert found.data()["user"][0]["roles"] == ["admins"]
    assert any("not our role admin" in note for note in found.notes)


def test_rules_that_are_elsewhere_let_nobody_do_anything() -> None:
    xml = "<broker><plugins><authorizationPlugin/></plugins><transportConnectors/></broker>"
    data = import_text(xml).data()
    assert may(data, "role:users", "connect", "broker")
    for verb in ("send", "consume", "browse", "create", "destroy", "manage"):
        assert not may(data, "role:users", verb, "queue:a")


ARTEMIS = """
<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"><security-settings>
 <security-setting match="#">
  <permission type="send" roles="amq,all"/>
  <permission type="consume" roles="amq,all"/>
  <permission type="createDurableQueue" roles="amq"/>
 </security-setting>
 <security-setting match="secret.#">
  <permission type="send" roles="amq"/>
  <permission type="consume" roles="amq"/>
 </security-setting>
</security-settings></core></configuration>
"""


def test_artemis_narrower_entry_stands_alone_so_the_wider_one_gives_no_more() -> None:
    found = import_text(ARTEMIS)
    data = found.data()
    assert may(data, "role:amq", "send", "queue:secret.a")
    assert may(data, "role:amq", "consume", "queue:orders")
    assert not may(data, "role:all", "send", "queue:secret.a")
    assert not may(data, "role:all", "consume", "queue:secret")
    assert not may(data, "role:amq", "create", "queue:secret.a")  # only the narrow one counts
    assert any("all may no longer" in note for note in found.notes)
    assert len(found.opens) == 1 and "no user is known" in found.opens[0]


@pytest.mark.parametrize(
    ("expression", "patterns"),
    [
        (".*", ["**"]),
        ("^$", []),
        ("", []),
        (r"^orders\.new$", ["orders.new"]),
        (r"^orders\..*", ["orders.**"]),
        ("^orders.*", ["{orders.*}", "{orders.*}.**"]),
        (r"^(a|b\.c)$", ["a", "b.c"]),
        ("orders", None),
        ("^a[0-9]+$", None),
        ("^(a|b", None),
        (r"^a\d", None),
    ],
)
def test_regular_expressions_that_patterns_can_say(
    expression: str, patterns: list[str] | None
) -> None:
    assert patterns_of(expression) == patterns


RABBIT = {
    "rabbit_version": "3.10.8",
    "vhosts": [{"name": "/"}],
    "users": [{"name": "app", "password_hash": "x", "tags": ["administrator"]}],
    "permissions": [
        {"user": "app", "vhost": "/", "configure": "", "write": "^orders.*", "read": "a[0-9]"}
    ],
    "queues": [
        {
            "name": "orders",
            "vhost": "/",
            "durable": True,
            "arguments": {
                "x-max-length": 10,
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": "dead",
                "x-message-ttl": 1000,
            },
        }
    ],
    "policies": [
        {"name": "low", "pattern": "^o.*", "priority": 1, "definition": {"max-length": 5}},
        {"name": "high", "pattern": ".*", "priority": 9,
         "definition": {"delivery-limit": 3, "overflow": "reject-publish", "max-length": 7}},
        {"name": "odd", "pattern": "x+", "priority": 3, "definition": {"max-length": 5}},
    ],
    "exchanges": [{"name": "logs", "type": "topic"}],
    "bindings": [{"source": "logs", "destination": "orders"}],
}  # fmt: skip


def rabbit(**changes: Any) -> Any:
    import json

    return import_text(json.dumps(RABBIT | changes))


def test_rabbitmqs_queues_and_policies_by_priority() -> None:
    found = rabbit()
    data = found.data()
    assert [entry["id"] for entry in data["queue"]] == ["orders", "**", "{o.*}", "{o.*}.**"]
    assert data["queue"][0] == {
        "id": "orders",
        "auto_delete_after_s": 0,
        "quota_messages": 10,
        "nak_limit": 3,  # of the policy that holds for it
        "full_policy": "reject",
        "dlq": "dead",
        "dlq_expired": True,
    }
    assert data["queue"][1]["full_policy"] == "reject" and data["queue"][1]["nak_limit"] == 3
    for noted in ("message-ttl", "policy odd", "logs -> orders", "user app: its password"):
        assert any(noted in note for note in found.notes), noted


def test_rabbitmqs_permissions_are_closed_where_they_cannot_be_said() -> None:
    found = rabbit()
    data = found.data()
    assert may(data, "user:app", "send", "queue:orders2.eu")
    assert not may(data, "user:app", "send", "queue:others")
    assert not may(data, "user:app", "consume", "queue:a1")  # an expression nobody translates
    assert not may(data, "user:app", "create", "queue:orders")
    assert found.opens == []


def test_rabbitmqs_topic_permissions_are_told_as_more_open() -> None:
    bound = {"user": "app", "vhost": "/", "exchange": "amq.topic", "write": "^a", "read": ".*"}
    assert "amq.topic" in rabbit(topic_permissions=[bound]).opens[0]


def test_what_rabbitmq_says_beside_is_noted() -> None:
    found = rabbit(
        users=[{"name": "app", "tags": ["monitoring"], "limits": {"max-connections": 5}}],
        vhosts=[{"name": "/", "description": "the shop", "metadata": {"tags": ["x"]}}],
        parameters=[{"component": "shovel", "name": "move", "value": {}}],
        future=7,
    )
    for noted in ("monitoring", "max-connections", "the shop", "parameters: move", "future: 7"):
        assert any(noted in note for note in found.notes), noted


def test_queues_of_one_name_in_two_virtual_hosts_have_one_policy() -> None:
    one = {"name": "q", "vhost": "/", "durable": True, "arguments": {"x-max-length": 5}}
    other = {**one, "vhost": "b", "auto_delete": True}
    found = rabbit(queues=[one, one, other], policies=[])
    assert found.data()["queue"] == [
        {"id": "q", "quota_messages": 5, "full_policy": "drop head", "auto_delete_after_s": 0}
    ]
    assert any("queue q of virtual host b" in note for note in found.notes)


def test_a_user_whose_password_cannot_be_taken_over_is_there_and_locked() -> None:
    (user,) = rabbit().data()["user"]
    assert (user["name"], user["roles"]) == ("app", ["admin"])
    record = parse_record(user["password"])
    assert not any(record.matches(guess) for guess in ("", "x", "app", user["password"]))


def test_without_any_user_the_default_login_is_told_as_more_open() -> None:
    found = rabbit(users=[])
    found.data()
    found.text()  # told once, however often it is asked for
    assert found.opens == [
        "no user is known, so admin may log in from this machine with the default password"
    ]


def test_the_default_virtual_host_stays_the_one_for_clients_that_name_none() -> None:
    data = rabbit(vhosts=[{"name": "other"}, {"name": "/"}]).data()
    assert [entry["id"] for entry in data["virtual_host"]] == ["default", "other"]


@pytest.mark.parametrize(
    "part",
    [
        {"policies": [{"pattern": "^a", "definition": {}}]},
        {"queues": [{"name": "a", "arguments": {"x-max-length": "many"}}]},
        {"queues": [{"name": "a", "arguments": {"x-max-length": 1, "x-overflow": "spill"}}]},
        {"queues": ["a"]},
        {"users": {"name": "a"}},
        {"vhosts": 5},
    ],
)
def test_definitions_that_are_none_are_refused_not_a_traceback(part: dict[str, Any]) -> None:
    with pytest.raises(ImportRefused, match="not as RabbitMQ writes definitions"):
        rabbit(**part)


def test_permissions_that_differ_by_host_are_told_as_more_open() -> None:
    found = rabbit(vhosts=[{"name": "/"}, {"name": "other"}])
    assert found.opens and "MORE OPEN" in found.text()


@pytest.mark.parametrize(
    ("wide", "narrow", "is_covered", "is_overlapping"),
    [
        ("**", "a", True, True),
        ("a.**", "a.b.c", True, True),
        ("a.**", "a", False, False),
        ("a.*", "a.b", True, True),
        ("a.*", "a.**", False, True),
        ("a.*", "*.b", False, True),
        ("a", "b", False, False),
    ],
)
def test_what_a_pattern_covers(
    wide: str, narrow: str, is_covered: bool, is_overlapping: bool
) -> None:
    assert covers(wide, narrow) is is_covered
    assert overlap(wide, narrow) is is_overlapping


def test_apollos_rules_that_allow_are_taken_over() -> None:
    data = import_text(
        "<broker><virtual_host id='v'>"
        "<access_rule allow='admins' action='*'/>"
        "<access_rule allow='joe' action='send consume' kind='queue' id='ok.**'/>"
        "</virtual_host></broker>"
    ).data()
    assert may(data, "user:joe", "send", "queue:ok.a")
    assert not may(data, "user:joe", "send", "topic:ok.a")
    assert not may(data, "user:joe", "send", "queue:secret")
    assert may(data, "role:admins", "manage", "queue:secret")


def login(plugin: str) -> str:
    return f"<broker><plugins>{plugin}</plugins><transportConnectors/></broker>"


@pytest.mark.parametrize(
    "plugin",
    [
        "<jaasAuthenticationPlugin configuration='x'/>",
        "<jaasDualAuthenticationPlugin/>",
        "<bean class='org.example.Guard'/>",
        "<bean xmlns='http://www.springframework.org/schema/beans' class='x.Shiro'/>",
    ],
)
def test_who_had_to_log_in_does_not_come_in_by_the_default_user(plugin: str) -> None:
    found = import_text(login(plugin))
    found.data()
    assert len(found.opens) == 1


def test_a_plugin_that_keeps_nobody_out_opens_nothing() -> None:
    found = import_text(login("<statisticsBrokerPlugin/>"))
    found.data()
    assert found.opens == []


def test_a_password_that_a_properties_file_has_encrypted_is_no_password(tmp_path: Path) -> None:
    beside = tmp_path / "credentials-enc.properties"
    beside.write_text("boss.password=ENC(mYRkg+4Q4hua1kvpCCI2hg==)\n")
    found = import_text(ACTIVEMQ.replace("{topics}", TOPICS), read_beside([beside]))
    assert found.data()["user"] == [{"name": "boss", "password": LOCKED, "roles": ["admin"]}]


def test_properties_are_read_as_java_reads_them(tmp_path: Path) -> None:
    beside = tmp_path / "users.properties"
    beside.write_text("! no\nann: a\\\n  bc\nbob = x\\=y \njoe\tz\nm\\u00fc=1\n\n")
    assert read_beside([beside]).passwords == {"ann": "abc", "bob": "x=y", "joe": "z", "mü": "1"}


def test_a_role_admin_that_may_not_do_everything_is_not_our_admin(tmp_path: Path) -> None:
    users, roles = tmp_path / "artemis-users.properties", tmp_path / "artemis-roles.properties"
    users.write_text("joe=secret\n")
    roles.write_text("admin=joe\n")
    text = ARTEMIS.replace('roles="amq"', 'roles="admin"')
    found = import_text(text, read_beside([users, roles]))
    data = found.data()
    assert data["user"][0]["roles"] == ["old-admin"]
    assert may(data, "role:old-admin", "send", "queue:secret.a")
    assert not may(data, "role:old-admin", "send", "queue:other")
    assert any("old-admin" in note for note in found.notes)


@pytest.mark.parametrize(
    "rule",
    [
        "<access_rule allow='joe' action='send' id_regex='a.*'/>",
        "<access_rule allow='joe' action='send' connector='tcp2'/>",
        "<acl><connect allow='joe'/></acl>",
        "<acl/><access_rule allow='joe' action='send'/>",
    ],
)
def test_apollos_rules_that_cannot_be_said_give_nothing(rule: str) -> None:
    text = f"<broker>{rule}<virtual_host id='v'>{rule}</virtual_host></broker>"
    assert not may(import_text(text).data(), "user:joe", "send", "queue:abc")


def test_apollos_authentication_without_its_users_is_more_open() -> None:
    found = import_text("<broker><authentication domain='x'/><virtual_host id='v'/></broker>")
    found.data()
    assert len(found.opens) == 1
