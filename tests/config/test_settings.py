"""The defaults are those promised, `default.toml` is their true copy, repeats are refused."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

import covey.config
from covey.config.load import load
from covey.config.settings import BrokerSettings, Settings, UserSettings, schema

REFERENCE = Path(covey.config.__path__[0]) / "default.toml"

# A key or header that is unset by default stands behind "#" without a space.
UNSET = re.compile(r"^#(?=[a-z\[])", re.MULTILINE)


def test_without_anything_given_the_broker_listens_on_loopback() -> None:
    settings = Settings()
    binds = {connector.protocol: connector.bind for connector in settings.connectors}
    assert binds == {
        "stomp": "127.0.0.1:61613",
        "amqp": "127.0.0.1:5672",
        "http": "127.0.0.1:8161",
    }
    assert settings.store.path == "data"
    assert settings.virtual_hosts[0].host_names == ("localhost", "127.0.0.1", "::1")
    admin = settings.users[0]
    assert (admin.name, admin.password.get_secret_value()) == ("admin", "password")


def test_the_broker_wide_limits_have_their_documented_defaults() -> None:
    broker = BrokerSettings()
    assert broker.tx_operations_max == 10_000
    assert broker.tx_bytes_max == 64 << 20
    assert broker.subscriptions_max == 256
    assert broker.unsettled_max == 100_000
    assert (broker.selector_length_max, broker.selector_depth_max) == (4096, 64)
    assert (broker.destination_length_max, broker.destination_levels_max) == (1024, 32)
    assert (broker.composite_parts_max, broker.wildcards_max) == (32, 16)
    assert (broker.memory_window_queue, broker.memory_window_total) == (16 << 20, 64 << 20)
    assert broker.logins_pending_max == 100


def keys(node: object) -> Iterator[str]:
    """Give the name of every option of a schema."""
    if isinstance(node, dict):
        found = node.get("properties", {})
        yield from found
        for below in (*found.values(), *node.get("$defs", {}).values()):
            yield from keys(below)


def test_every_option_is_read_somewhere() -> None:
    root = REFERENCE.parent.resolve().parent
    rooms = [root / name for name in ("core", "groups", "protocols", "config", "src/covey")]
    importers = ("apollo.py", "activemq.py")  # they write options, they do not follow them
    files = [f for room in rooms for f in room.rglob("*.py") if f.name not in importers]
    text = "".join(file.read_text() for file in files)
    named = set(keys(schema()))
    assert len(named) > 100
    unread = [key for key in sorted(named) if not re.search(rf'\.{key}\b|"{key}"', text)]
    assert unread == []


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        BrokerSettings().id = "other"


def test_a_password_does_not_show_in_a_printed_record() -> None:
    user = UserSettings.model_validate({"name": "a", "password": "hunter2"})
    assert "hunter2" not in repr(user)


@pytest.mark.parametrize(
    ("name", "field", "entry"),
    [
        ("virtual_host", "host_names", {"host_names": ["a"]}),
        ("connector", "id", {"protocol": "stomp", "bind": "a:1"}),
        ("queue", "id", {}),
        ("topic", "id", {}),
    ],
)
def test_two_entries_may_not_share_a_name(name: str, field: str, entry: dict[str, object]) -> None:
    second = "other" if field == "host_names" else "one"
    with pytest.raises(ValidationError, match="given twice"):
        Settings.model_validate({name: [{"id": "one", **entry}, {"id": second, **entry}]})


def test_at_least_one_virtual_host_is_needed() -> None:
    with pytest.raises(ValidationError, match="virtual_host"):
        Settings.model_validate({"virtual_host": []})


def test_the_schema_describes_every_key_and_its_bounds() -> None:
    document = schema()
    assert set(document["properties"]) >= {"broker", "connector", "queue", "user"}
    records = document["$defs"].values()
    for record in records:
        assert record["additionalProperties"] is False
        for name, field in record["properties"].items():
            assert "description" in field or "$ref" in field, name
    ring_points = document["$defs"]["GroupSettings"]["properties"]["ring_points"]
    assert (ring_points["minimum"], ring_points["maximum"]) == (1, 1000)


def test_the_reference_file_loads_to_exactly_the_defaults() -> None:
    loaded = load(REFERENCE, {}, {})
    assert loaded.settings == Settings()
    assert loaded.warnings == []


def test_each_value_in_the_reference_file_is_the_one_in_force() -> None:
    loaded = load(REFERENCE, {}, {})
    assert loaded.origins["queue[0].groups.strategy"].startswith(f"{REFERENCE}:")


def test_the_reference_file_names_every_key() -> None:
    named = set(_keys(tomllib.loads(UNSET.sub("", REFERENCE.read_text("utf-8")))))
    defined = set(_schema_keys(schema(), "", schema()))
    assert named == defined


def test_the_reference_file_s_comments_say_what_the_settings_say() -> None:
    comments = " ".join(re.findall(r"^# (.*)$", REFERENCE.read_text("utf-8"), re.MULTILINE))
    for record in schema()["$defs"].values():
        for name, field in record["properties"].items():
            if "$ref" not in field and name != "tls":
                assert " ".join(field["description"].split()) in comments, name


def _keys(node: object, prefix: str = "") -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _keys(value, f"{prefix}.{key}")
    elif isinstance(node, list) and node and isinstance(node[0], dict):
        for entry in node:
            yield from _keys(entry, prefix)
    else:
        yield prefix


def _schema_keys(
    node: dict[str, object], prefix: str, document: dict[str, object]
) -> Iterator[str]:
    text = str(node)
    found = re.search(r"#/\$defs/(\w+)", text) if "properties" not in node else None
    if found:
        records = document["$defs"]
        assert isinstance(records, dict)
        node = records[found.group(1)]
    properties = node.get("properties")
    if not isinstance(properties, dict):
        yield prefix
        return
    for name, field in properties.items():
        yield from _schema_keys(field, f"{prefix}.{name}", document)
