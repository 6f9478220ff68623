"""Configuration: the settings in force, where each of them is from, and reading them again.

A secret is never shown. The answer to a reload tells what was changed, what could not change and
what waits for a restart. SIGHUP writes the same into the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from pydantic import SecretStr
from starlette.responses import Response

from covey.config.connectors import SPOKEN
from covey.config.settings import schema
from covey.core.management.definitions import bring_in, export
from covey.core.management.describe import Attributes, Plain
from covey.core.naming.destination import DURABLE_PREFIX
from covey.protocols.http.answer import json_answer, text_answer
from covey.protocols.http.ask import Ask
from covey.protocols.http.schemas import DefinitionsBody

SECRET: Final = "**********"


async def export_definitions(ask: Ask) -> Response:
    """Show everything that was declared, with the records of passwords if asked for."""
    work = export(ask.admin, passwords=ask.is_set("passwords"))
    await ask.until_over(work)
    return text_answer(work.text, "application/json")


async def import_definitions(ask: Ask) -> Response:
    """Make or change everything that a document defines, or only tell what would change."""
    assert isinstance(ask.body, DefinitionsBody)
    work = bring_in(ask.admin, ask.body, dry_run=ask.is_set("dry_run"))
    await ask.until_over(work)
    return json_answer(work.result())


async def read_configuration(ask: Ask) -> Response:
    """Show every value with its origin."""
    loaded = ask.console.configuration.loaded()
    values = loaded.settings.model_dump(by_alias=True)
    for connector in values["connector"]:
        for protocol in SPOKEN:
            if protocol not in SPOKEN[connector["protocol"]]:
                del connector[protocol]  # the connector speaks another protocol
    rows: list[Plain] = [
        {"key": key, "value": _plain(value), "origin": loaded.origins.get(key, "default")}
        for key, value in _leaves(values, "")
    ]
    return json_answer({"items": rows, "total": len(rows), "warnings": list(loaded.warnings)})


async def read_policy(ask: Ask) -> Response:
    """Show a queue's policy, with the origin of each value: declaration, entry or default."""
    queue = ask.admin.backlog(ask.name)
    loaded = ask.console.configuration.loaded()
    policies = ask.host.policies
    is_durable = queue.name not in ask.host.queues
    name = queue.name.removeprefix(DURABLE_PREFIX)
    policy = policies.durable(name) if is_durable else policies.queue(queue.name)
    entries = loaded.settings.queues
    place = next((at for at, entry in enumerate(entries) if entry is policy), -1)
    given = dict(_leaves(policy.model_dump(by_alias=True), ""))
    rows: list[Plain] = []
    for key, value in _leaves(queue.settings.model_dump(by_alias=True), ""):
        origin = loaded.origins.get(f"queue[{place}].{key}", "default") if place >= 0 else "default"
        if key == "id":
            continue
        if value != given[key]:
            origin = "declared"
        elif origin != "default":
            origin = f"[[queue]] {policy.id}, {origin}"
        rows.append({"key": key, "value": _plain(value), "origin": origin})
    return json_answer({"items": rows, "total": len(rows)})


async def read_schema(ask: Ask) -> Response:
    """Show every setting that a policy of queues may have, as a form wants to know it."""
    rows = policy_fields()
    return json_answer({"items": rows, "total": len(rows)})


async def reload_configuration(ask: Ask) -> Response:
    """Read the configuration again, and tell what has changed."""
    identity = ask.identity
    report = ask.console.configuration.reload(identity.name, identity.remote, "http")
    return json_answer(
        {
            "changes": list(report.changes),
            "kept": list(report.kept),
            "needs_restart": list(report.needs_restart),
        }
    )


@cache
def policy_fields() -> list[Plain]:
    """Return a row for each setting of a policy: its type, default, choices and meaning."""
    parts = schema()["$defs"]
    rows: list[Plain] = []
    for prefix, part in (("", "QueueSettings"), ("groups.", "GroupSettings")):
        for name, told in parts[part]["properties"].items():
            if name not in ("id", "groups"):
                row: Attributes = {"key": prefix + name, "kind": _kind(told)}
                row["options"] = told.get("enum", [])
                row["default"] = told["default"]
                row["help"] = " ".join(told["description"].split())
                rows.append(row)
    return rows


def _kind(told: Mapping[str, Any]) -> str:
    """Return "boolean", "number" or "string"; a size, which may be written "10M", is a string."""
    kinds = {one["type"] for one in told.get("anyOf", [told])} - {"null"}
    kind = kinds.pop() if len(kinds) == 1 else "string"
    return "number" if kind == "integer" else str(kind)


def _leaves(node: object, key: str) -> Iterator[tuple[str, object]]:
    """Give each value under its key, written like `queue[0].groups.strategy`."""
    if isinstance(node, dict):
        for name, value in node.items():
            yield from _leaves(value, f"{key}.{name}" if key else str(name))
    elif isinstance(node, list | tuple) and node and isinstance(node[0], dict):
        for place, value in enumerate(node):
            yield from _leaves(value, f"{key}[{place}]")
    else:
        yield key, node


def _plain(value: object) -> Plain:
    if isinstance(value, SecretStr):
        return SECRET
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else str(value)
