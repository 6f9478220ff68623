"""ActiveMQ's `activemq.xml`: destination policies, transport connectors, users.

Group maps, their misspelt element and option of the message groups page included, become group
strategies. In ActiveMQ the entry that fits a name best wins, here the first one: entries are
written in that order. `>` is our `**`.

What `<authorizationEntry>` allows adds up, as our permissions do. `read` is to consume and to
browse, `write` to send, `admin` to create and to destroy. A map that is not written out in the file
(LDAP, a bean of one's own) cannot be read: nobody but an admin may do anything then.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit
from xml.etree.ElementTree import Element

from covey.cli.importers.access import (
    ADMIN,
    EVERYBODY,
    Entry,
    may_everything,
    rename_role,
    write,
)
from covey.cli.importers.imported import (
    NEEDS_CERTIFICATE,
    Imported,
    ImportRefused,
    local_name,
    named,
    size_of,
    value_of,
)
from covey.groups import spellings

NAMESPACE: Final = "http://activemq.apache.org/schema/core"
MARKS: Final = frozenset(
    {
        f"{{{NAMESPACE}}}broker",
        "policyEntry",
        "policyEntries",
        "policyMap",
        "destinationPolicy",
        "transportConnector",
        "transportConnectors",
        "simpleAuthenticationPlugin",
        "authorizationPlugin",
        "jaasAuthenticationPlugin",
    }
)

GROUP_ATTRIBUTES: Final = {
    "consumersBeforeDispatchStarts": "consumers_before_dispatch",
    "timeBeforeDispatchStarts": "time_before_dispatch_ms",
}
# A map's own options; the page's `cachedSize` bounds its memory as `cacheSize` does.
MAP_ATTRIBUTES: Final = {
    "bucketCount": "bucket_count",
    "cacheSize": "cache_size",
    "cachedSize": "cache_size",
}
QUEUE_ATTRIBUTES: Final = {"memoryLimit": "quota"}
FACTORY_TYPE: Final = "messageGroupMapFactoryType"
PRIORITIES: Final = 10
PAGING: Final = "maxPageSize is not needed: a group's backlog blocks no other group here"
NO_RULES: Final = (
    "<authorizationPlugin> has no <authorizationEntry>: its rules are elsewhere, so nobody but an"
    " admin may do anything until there are [[permission]] entries"
)
ELSEWHERE: Final = "users come from JAAS: name its users.properties and groups.properties"
ANONYMOUS: Final = "anonymousAccessAllowed has no counterpart: everybody logs in"
IN_MEMORY: Final = 'persistent="false": say so as kind = "memory" of [store]'
MEMORY: Final = "<systemUsage>: memory_limit of [broker] bounds what messages take here"
VERBS: Final = {
    "read": ("consume", "browse"),
    "write": ("send",),
    "admin": ("create", "destroy"),
}
ADMINS: Final = "admins"
TEMPORARY: Final = "temp.**"
NO_REDELIVERIES: Final = (
    "<deadLetterStrategy>: in ActiveMQ the client counts redeliveries, 6 if it says nothing; here"
    " nak_limit does, which is to be set"
)
# Parts of a broker and its plugins whose content is read.
READ: Final = frozenset(
    {
        "destinationPolicy",
        "transportConnectors",
        "plugins",
        "simpleAuthenticationPlugin",
        "authorizationPlugin",
        "jaasAuthenticationPlugin",
        "jaasDualAuthenticationPlugin",
        "jaasCertificateAuthenticationPlugin",
        "destinations",
        "systemUsage",
    }
)
LOGINS: Final = ("simpleAuthenticationPlugin", "jaasAuthenticationPlugin",
                 "jaasDualAuthenticationPlugin", "jaasCertificateAuthenticationPlugin")  # fmt: skip
# Plugins that keep nobody out. Any other may have done so.
HARMLESS: Final = frozenset(
    {
        "camelRoutesBrokerPlugin",
        "connectionDotFilePlugin",
        "destinationDotFilePlugin",
        "destinationPathSeparatorPlugin",
        "destinationsPlugin",
        "discardingDLQBrokerPlugin",
        "forcePersistencyModeBroker",
        "forcePersistencyModeBrokerPlugin",
        "loggingBrokerPlugin",
        "multicastTraceBrokerPlugin",
        "redeliveryPlugin",
        "runtimeConfigurationPlugin",
        "statisticsBrokerPlugin",
        "timeStampingBrokerPlugin",
        "traceBrokerPathPlugin",
        "udpTraceBrokerPlugin",
    }
)
PROTOCOLS: Final = {"stomp": "stomp", "stomp+nio": "stomp", "amqp": "amqp", "amqp+nio": "amqp"}


def read(root: Element, found: Imported) -> None:
    """Read a whole file, or any part of one that holds policies or connectors."""
    for element in root.iter():
        name = local_name(element)
        if name == "policyEntry":
            _read_policy(element, found)
        elif name == "transportConnector":
            _read_connector(element, found)
        elif name == "authenticationUser":
            _read_user(element, found)
        elif name == "simpleAuthenticationPlugin" and element.get("anonymousAccessAllowed"):
            found.notes.append(ANONYMOUS)
        elif name == "broker":
            _read_broker(element, found)
        elif name == "plugins":
            _read_plugins(element, found)
        elif name == "beans":
            parts = [local_name(child) for child in element]
            found.notes += [f"<{part}> has no counterpart" for part in parts if part != "broker"]
    rules = [each for each in root.iter() if local_name(each) == "authorizationPlugin"]
    for plugin in rules:
        _read_rules(plugin, found)
    if not rules:
        rename_role(ADMINS, ADMIN, found)  # without rules everybody may do everything there
    for entries in (found.tables.get("queue", []), found.tables.get("topic", [])):
        entries.sort(key=_generality)


def _read_broker(broker: Element, found: Imported) -> None:
    """Read a broker's own attributes, and note the parts that nobody else reads."""
    own = {name: text for name, text in broker.attrib.items() if "}" not in name}
    if own.pop("persistent", "true") == "false":
        found.notes.append(IN_MEMORY)
    if "plugins" in own:
        _may_have_kept_out(f"plugins={own.pop('plugins')}", found)
    found.notes += [f"<broker {name}> has no counterpart" for name in own]
    for child in broker:
        name = local_name(child)
        if name == "destinations":
            for one in child:
                found.need_no_entry(local_name(one), one.get("physicalName", ""))
        elif name == "systemUsage":
            found.notes.append(MEMORY)
        elif name and name not in READ:
            found.notes.append(f"<{name}> has no counterpart")


def _read_plugins(plugins: Element, found: Imported) -> None:
    """Find out whether users had to log in. A plugin that is not known may have kept them out."""
    for plugin in plugins:
        name = local_name(plugin)
        if name in LOGINS:
            found.asks_for_login = True
            if name != LOGINS[0]:
                found.notes.append(ELSEWHERE)
        elif name in HARMLESS:
            found.notes.append(f"<{name}> has no counterpart")
        elif name and name not in READ:
            _may_have_kept_out(f"<{name} {plugin.get('class', '')}".rstrip() + ">", found)


def _may_have_kept_out(plugin: str, found: Imported) -> None:
    found.open_up(f"the plugin {plugin} is not known here, and may have kept somebody out")


def _read_rules(plugin: Element, found: Imported) -> None:
    """Read who may do what; nothing that can be read means that nobody may do anything."""
    elements = [each for each in plugin.iter() if local_name(each) == "authorizationEntry"]
    entries = [entry for element in elements for entry in _rules(element, found)]
    entries += [
        Entry(TEMPORARY, "", _verbs_by_role(element))
        for element in plugin.iter()
        if local_name(element) == "tempDestinationAuthorizationEntry"
    ]
    if not entries:
        found.notes.append(NO_RULES)
    elif not any(entry.pattern == TEMPORARY for entry in entries):
        # Without an entry of their own temporary destinations are everybody's in ActiveMQ.
        entries.append(Entry(TEMPORARY, "", {EVERYBODY: frozenset(("create", "send", "consume"))}))
    write(entries, found)
    _find_admins(entries, found)


def _rules(element: Element, found: Imported) -> list[Entry]:
    """Return what one entry allows; `a.>` means `a` as well in ActiveMQ."""
    kinds = [kind for kind in ("queue", "topic") if kind in element.attrib]
    verbs = _verbs_by_role(element)
    entries = []
    for kind in kinds or ["queue", "topic"]:
        for name in element.get(kind, ">").split(","):
            pattern = _pattern(found.resolved(name.strip()))
            entries.append(Entry(pattern, kind, verbs))
            if pattern.endswith(".**"):
                entries.append(Entry(pattern.removesuffix(".**"), kind, verbs))
    return entries


def _verbs_by_role(element: Element) -> dict[str, frozenset[str]]:
    verbs: dict[str, frozenset[str]] = {}
    for theirs, ours in VERBS.items():
        for name in element.get(theirs, "").split(","):
            role = name.strip()
            if role:
                verbs[role] = verbs.get(role, frozenset()) | frozenset(ours)
    return verbs


def _find_admins(entries: list[Entry], found: Imported) -> None:
    """Call the group `admins` our role `admin`, which may do everything, only if it may there."""
    if may_everything(ADMINS, entries):
        rename_role(ADMINS, ADMIN, found)
    elif any(ADMINS in user["roles"] for user in found.tables.get("user", [])):
        found.notes.append(
            "the group admins may not do everything in ActiveMQ, so it is not our role admin: give"
            " that role to somebody, or nobody can manage the broker"
        )


def _read_policy(element: Element, found: Imported) -> None:
    if "topic" in element.attrib:
        found.add("topic", {"id": _pattern(element.attrib["topic"])})
        names = [name for name in element.attrib if name != "topic"]
        found.notes += [f"<policyEntry topic> {name} has no counterpart" for name in names]
        parts = [local_name(child) for child in element]
        found.notes += [f"<{part}> of a policyEntry has no counterpart" for part in parts]
        return
    own = ("queue", "maxPageSize", FACTORY_TYPE, "prioritizedMessages", *GROUP_ATTRIBUTES)
    queue = named(element, QUEUE_ATTRIBUTES, found, skipped=own)
    if "quota" in queue:
        queue["quota"] = size_of(str(queue["quota"]))
    if element.get("prioritizedMessages") == "true":
        queue["priorities"] = PRIORITIES
    if "maxPageSize" in element.attrib:
        found.notes.append(PAGING)
    groups = {
        ours: value_of(element.attrib[theirs])
        for theirs, ours in GROUP_ATTRIBUTES.items()
        if theirs in element.attrib
    }
    if FACTORY_TYPE in element.attrib:
        groups |= _factory_type(element.attrib[FACTORY_TYPE])
    for child in element:
        _read_part(child, queue, groups, found)
    if "priorities" in queue and "strategy" in groups:
        del groups["strategy"]
        found.notes.append("message groups of a queue with priorities have no counterpart")
    entry = {"id": _pattern(element.get("queue", ">")), **queue}
    found.add("queue", {**entry, **({"groups": groups} if groups else {})})


def _read_part(
    child: Element, queue: dict[str, Any], groups: dict[str, Any], found: Imported
) -> None:
    name = local_name(child)
    if name == "messageGroupMapFactory":
        for factory in child:
            groups["strategy"] = _strategy(local_name(factory))
            groups |= named(factory, MAP_ATTRIBUTES, found)
    elif name == "deadLetterStrategy":
        for strategy in child:
            queue |= _dead_letters(strategy, found)
            found.notes.append(NO_REDELIVERIES)
    else:
        found.notes.append(f"<{name}> of a policyEntry has no counterpart")


def _strategy(name: str) -> str:
    known = spellings()
    if name not in known:
        raise ImportRefused(f"<{name}> is no message group map of ActiveMQ")
    return known[name]


def _factory_type(text: str) -> dict[str, Any]:
    """Read `bucket?bucketCount=64`."""
    kind, _, query = text.partition("?")
    options = {
        MAP_ATTRIBUTES[key]: value_of(value)
        for key, value in parse_qsl(query)
        if key in MAP_ATTRIBUTES
    }
    return {"strategy": _strategy(kind), **options}


def _dead_letters(strategy: Element, found: Imported) -> dict[str, Any]:
    """Dead messages go to one queue for all, or to one for each."""
    kind = local_name(strategy)
    dlq = "ActiveMQ.DLQ"
    if kind == "individualDeadLetterStrategy":
        prefix = strategy.get("queuePrefix", "ActiveMQ.DLQ.Queue.")
        dlq = prefix + "*" + strategy.get("queueSuffix", "")
    elif kind in ("sharedDeadLetterStrategy", "deadLetterStrategy"):
        for queue in strategy.iter():
            dlq = queue.get("physicalName", dlq)
    else:
        found.notes.append(f"<{kind}> has no counterpart")
        return {}
    read = ("processExpired", "queuePrefix", "queueSuffix")
    named(strategy, {}, found, skipped=read)
    # ActiveMQ sends expired messages there unless told otherwise.
    return {"dlq": dlq, "dlq_expired": strategy.get("processExpired", "true") == "true"}


def _read_connector(element: Element, found: Imported) -> None:
    url = urlsplit(element.get("uri", ""))
    protocol = PROTOCOLS.get(url.scheme)
    name = element.get("name", url.scheme)
    named(element, {}, found, skipped=("name", "uri"))
    if protocol is None:
        is_tls = url.scheme.partition("+")[0] in PROTOCOLS and url.scheme.endswith("ssl")
        reason = NEEDS_CERTIFICATE if is_tls else f"{url.scheme} is not spoken here"
        found.notes.append(f"transportConnector {name}: {reason}")
        return
    connector: dict[str, Any] = {"id": name, "protocol": protocol, "bind": url.netloc}
    options = dict(parse_qsl(url.query))
    if options.get("maximumConnections", "").isdigit():
        connector["connections_max"] = int(options["maximumConnections"])
    others = [each for each in options if each != "maximumConnections"]
    found.notes += [f"transportConnector {name}: {each} has no counterpart" for each in others]
    found.add("connector", connector)


def _read_user(element: Element, found: Imported) -> None:
    groups = [name.strip() for name in element.get("groups", "").split(",") if name.strip()]
    found.add_user(element.get("username", ""), element.get("password", ""), groups)


def _pattern(text: str) -> str:
    """Return a name or pattern as we write it; `>` stands for all levels below."""
    return "**" if text == ">" else text.removesuffix(">") + ("**" if text.endswith(">") else "")


def _generality(entry: dict[str, Any]) -> tuple[bool, bool, int]:
    """Order exact names first, the widest pattern last."""
    pattern: str = entry["id"]
    return "**" in pattern, "*" in pattern, -pattern.count(".")
