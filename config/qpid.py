"""Declaring a queue in Qpid's words: arguments and command options <-> our settings.

The one table below says which key of the Qpid page (and of qpid-config's options) stands for which
of our settings. The table is used in both directions. So the arguments that a listing shows declare
the same queue again. A setting that Qpid has no word for is written as `covey.<option>` or
`covey.groups.<option>`.

Where Qpid's meaning differs from our default, the declaration follows Qpid: a limit without a
policy rejects, and a group header without `qpid.shared_msg_group` means sticky groups (strategy
simple, as in Broker-J) unless a strategy is named here or by the queue's policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from pydantic import ValidationError

from covey.config.explain import cause
from covey.config.queues import QueueSettings
from covey.config.record import plain_name
from covey.groups.registry import OPTIONS

OWN_PREFIX: Final = "covey."
GROUP_PREFIX: Final = "groups."
HEADER_KEY: Final = "qpid.group_header_key"
SHARED_KEY: Final = "qpid.shared_msg_group"
POLICY_KEY: Final = "qpid.policy_type"
STRATEGY_OPTION: Final = "--group-strategy"


@dataclass(frozen=True, slots=True)
class Word:
    """One row of the table: Qpid's key, qpid-config's option, and our setting."""

    key: str
    option: str
    setting: str


# In the order qpid-config lists a queue's options.
WORDS: Final = (
    Word("durable", "--durable", "durable"),
    Word("qpid.auto_delete_timeout", "", "auto_delete_after_s"),
    Word("qpid.max_size", "--max-queue-size", "quota"),
    Word("qpid.max_count", "--max-queue-count", "quota_messages"),
    Word(POLICY_KEY, "--limit-policy", "full_policy"),
    Word("qpid.last_value_queue_key", "--lvq-key", "lvq_key"),
    Word("alternate-exchange", "--alternate-exchange", "dlq"),
    Word("qpid.priorities", "", "priorities"),
    Word(HEADER_KEY, "--group-header", "groups.header"),
    Word(SHARED_KEY, "--shared-groups", "groups.strategy"),
)
BY_KEY: Final = {word.key: word for word in WORDS}
BY_SETTING: Final = {word.setting: word for word in WORDS}

# Our own options of `covey-config`, for what Qpid has no word for.
OWN_OPTIONS: Final = {
    "covey.groups.strategy": STRATEGY_OPTION,
    **{f"covey.groups.{name}": option.flag for name, option in OPTIONS.items() if option.flag},
    "covey.groups.consumers_before_dispatch": "--consumers-before-dispatch",
    "covey.groups.time_before_dispatch_ms": "--time-before-dispatch",
    "covey.groups.rebalance_after_s": "--rebalance-after",
    "covey.groups.rebalance_rate": "--rebalance-rate",
    "covey.groups.spill_after_ms": "--spill-after",
    "covey.groups.group_rate": "--group-rate",
    "covey.groups.unsettled_max": "--group-unsettled-max",
    "covey.groups.park_after_failures": "--park-after-failures",
    "covey.duplicate_window": "--duplicate-window",
    "covey.duplicate_window_s": "--duplicate-window-seconds",
    "covey.delivery_deadline_max_s": "--delivery-deadline-max",
    "covey.groups.count_idle_groups": "--count-idle-groups",
    "covey.dead_letter_rest": "--dead-letter-rest",
    "covey.dead_letter_then": "--dead-letter-then",
    "covey.delivery_deadline_s": "--delivery-deadline",
    "covey.deadline_action": "--deadline-action",
}
OWN_TEXTS: Final = frozenset(
    (STRATEGY_OPTION, "--deadline-action", "--dead-letter-then")
)  # the others are numbers
OWN_FLAGS: Final = frozenset(("--count-idle-groups", "--dead-letter-rest"))  # without a value
STICKY: Final = "simple"
# Both reorder messages or remove them from the middle, so the Qpid page excludes groups on them.
GROUP_KEYS: Final = (HEADER_KEY, SHARED_KEY, "covey.groups.header", "covey.groups.strategy")
GROUPLESS_KEYS: Final = (
    "qpid.last_value_queue_key",
    "qpid.priorities",
    "covey.lvq_key",
    "covey.priorities",
)

# Qpid's flow control, its clusters and its disk files have no counterpart here. A client may ask
# for them. They are ignored, since they do not decide what becomes of a message.
IGNORED_KEYS: Final = frozenset(
    "qpid.flow_stop_size qpid.flow_stop_count qpid.flow_resume_size qpid.flow_resume_count"
    " qpid.replicate qpid.file_count qpid.file_size qpid.efp_partition_num qpid.efp_pool_file_size"
    " qpid.wcache-page-size qpid.wcache-num-pages qpid.group_timestamp auto-delete exclusive"
    " x-qpid-priorities qpid.trace.id qpid.trace.exclude".split()
)

POLICIES: Final = {"reject": "reject", "ring": "drop head", "ring-strict": "drop head"}
QPID_POLICIES: Final = {"reject": "reject", "drop head": "ring"}
POLICY_NONE: Final = "none"
LIMITS: Final = ("quota", "quota_messages")
FLAGS: Final = ("durable",)
NUMBERS: Final = frozenset(("quota", "quota_messages", "priorities"))


class DeclareError(ValueError):
    """A declaration cannot be fulfilled; the text names the queue and the argument."""


def declared(name: str, arguments: Mapping[str, object], base: QueueSettings) -> QueueSettings:
    """Return the settings of a queue declared with these arguments on top of its policy."""
    changes, groups = _read(name, arguments)
    _refuse_impossible(name, arguments, groups, base)
    _follow_qpid(arguments, changes, groups, base)
    kept = base.groups.model_dump(exclude_unset=True)
    return _validated(name, changes, kept | groups, base)


def changed(
    name: str, arguments: Mapping[str, object], old: QueueSettings, policy: QueueSettings
) -> QueueSettings:
    """Return a queue's settings changed by these arguments; settings that they do not name stay.

    An argument that is None brings back the value of the queue's policy.
    """
    changes, groups = _read(name, arguments)
    _refuse_impossible(name, arguments, groups, old)
    kept = old.groups.model_dump(exclude_unset=True)
    for key, value in arguments.items():
        if key in IGNORED_KEYS or value is not None:
            continue
        setting = _named(name, key)
        option = setting.removeprefix(GROUP_PREFIX)
        if option == setting:
            changes.setdefault(setting, getattr(policy, setting))
        elif option not in groups:
            kept.pop(option, None)
            if option in policy.groups.model_fields_set:
                kept[option] = getattr(policy.groups, option)
    return _validated(name, changes, kept | groups, old)


def _read(
    name: str, arguments: Mapping[str, object]
) -> tuple[dict[str, object], dict[str, object]]:
    """Return our settings for these arguments: those of the queue, and those of its groups."""
    changes: dict[str, object] = {}
    groups: dict[str, object] = {}
    for key, value in arguments.items():
        if key in IGNORED_KEYS or value is None:
            continue
        setting, given = _own(name, key, value)
        if setting.startswith(GROUP_PREFIX):
            groups[setting.removeprefix(GROUP_PREFIX)] = given
        elif setting:
            changes[setting] = given
    return changes, groups


def _validated(
    name: str, changes: dict[str, object], groups: dict[str, object], base: QueueSettings
) -> QueueSettings:
    whole = base.model_dump() | changes | {"id": name}
    # A strategy implies further defaults, so only values that were set explicitly are kept.
    whole["groups"] = groups
    try:
        return QueueSettings.model_validate(whole)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "arguments"
        raise DeclareError(f"queue {name}: {place}: {cause(first)}") from error


def arguments_of(settings: QueueSettings) -> dict[str, object]:
    """Return the arguments that declare such a queue, without those that have default values."""
    found: dict[str, object] = {}
    for setting, value in _telling(settings).items():
        word = BY_SETTING.get(setting)
        if value == "shared" and setting == "groups.strategy":
            found[SHARED_KEY] = 1
        elif setting == "full_policy" and value in QPID_POLICIES:
            found[POLICY_KEY] = QPID_POLICIES[str(value)]
        elif word is None or setting in ("full_policy", "groups.strategy"):
            found[OWN_PREFIX + setting] = value
        else:
            found[word.key] = value
    return found


def options_of(settings: QueueSettings) -> list[str]:
    """Return the command options that make such a queue, as qpid-config lists them."""
    arguments = arguments_of(settings)
    options = ["--durable"] if settings.durable else []
    arguments.pop("durable", None)
    for word in WORDS:
        if word.key not in arguments or not word.option:
            continue
        value = arguments.pop(word.key)
        options.append(word.option if word.key == SHARED_KEY else f"{word.option}={value}")
    for key, option in OWN_OPTIONS.items():
        if key in arguments:
            value = arguments.pop(key)
            is_flag = option in OWN_FLAGS and value is True
            options.append(option if is_flag else f"{option}={value}")
    return options + [f"--argument {key}={value}" for key, value in arguments.items()]


def setting_about(key: str) -> str:
    """Return what an argument of our own means, in the words of the settings."""
    setting = key.removeprefix(OWN_PREFIX)
    option = setting.removeprefix(GROUP_PREFIX)
    of = QueueSettings if option == setting else type(QueueSettings().groups)
    return (of.model_fields[option].description or "").replace("%", "%%")


def _own(name: str, key: str, value: object) -> tuple[str, object]:
    """Return our setting and value for one argument; "" if the argument has no effect."""
    if key.startswith(OWN_PREFIX):
        return _own_setting(name, key), value
    word = BY_KEY.get(key)
    if word is None:
        raise _unknown(name, key, BY_KEY)
    if key == SHARED_KEY:
        return (word.setting, "shared") if _is_true(value) else ("", None)
    if key == POLICY_KEY:
        return _policy(name, value)
    if word.setting in FLAGS:
        return word.setting, _is_true(value)
    if word.setting in NUMBERS and isinstance(value, str) and value.isdigit():
        return word.setting, int(value)
    return word.setting, value


def _named(name: str, key: str) -> str:
    """Return which of our settings an argument is about, whatever its value."""
    if key.startswith(OWN_PREFIX):
        return _own_setting(name, key)
    word = BY_KEY.get(key)
    if word is None:
        raise _unknown(name, key, BY_KEY)
    return word.setting


def _own_setting(name: str, key: str) -> str:
    setting = key.removeprefix(OWN_PREFIX)
    room, _, option = setting.rpartition(".")
    option = plain_name(option)
    known = {field: field for field in QueueSettings.model_fields if field not in ("id", "groups")}
    if room == "groups":
        fields = type(QueueSettings().groups).model_fields
        known = {field: GROUP_PREFIX + field for field in fields}
    if room not in ("", "groups") or option not in known:
        raise _unknown(name, key, [OWN_PREFIX + setting for setting in known.values()])
    return known[option]


def _unknown(name: str, key: str, known: Iterable[str]) -> DeclareError:
    near = get_close_matches(key, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return DeclareError(f"queue {name}: unknown argument {key!r}{hint}")


def _policy(name: str, value: object) -> tuple[str, object]:
    text = str(value)
    if text == POLICY_NONE:
        return "", None
    if text not in POLICIES:
        known = ", ".join((POLICY_NONE, *POLICIES))
        raise DeclareError(f"queue {name}: {POLICY_KEY}: {text[:40]!r} is none of {known}")
    return "full_policy", POLICIES[text]


def _refuse_impossible(
    name: str,
    arguments: Mapping[str, object],
    groups: Mapping[str, object],
    base: QueueSettings,
) -> None:
    """Refuse in Qpid's words what Qpid refuses; our settings refuse the rest in our words."""
    asked = [key for key in GROUP_KEYS if arguments.get(key)]
    groupless = [key for key in GROUPLESS_KEYS if arguments.get(key)]
    if asked and groupless:
        raise DeclareError(
            f"queue {name}: message groups are not supported on last-value and priority"
            f" queues: {asked[0]} and {groupless[0]} exclude each other"
        )
    if (
        not groups.get("header")
        and groups.get("strategy") == "shared"
        and base.groups.header is None
    ):
        raise DeclareError(f"queue {name}: {SHARED_KEY} needs {HEADER_KEY}")


def _follow_qpid(
    arguments: Mapping[str, object],
    changes: dict[str, object],
    groups: dict[str, object],
    base: QueueSettings,
) -> None:
    limited = any(changes.get(limit) for limit in LIMITS)
    if limited and "full_policy" not in changes:
        changes["full_policy"] = "reject"
    is_named = "strategy" in groups or "strategy" in base.groups.model_fields_set
    if HEADER_KEY in arguments and not is_named:
        groups["strategy"] = STICKY


def _is_true(value: object) -> bool:
    return value not in (0, False, "0", "false", "False", "", 0.0)


def _telling(settings: QueueSettings) -> dict[str, object]:
    """Return the settings that a declaration must name, by dotted name: all that are not default.

    The policy of a limit and the strategy of a group header are always named, since Qpid's own
    defaults for them differ from ours.
    """
    default = QueueSettings()
    groups = settings.groups
    found: dict[str, object] = {}
    for option in QueueSettings.model_fields:
        value = getattr(settings, option)
        is_said = option == "full_policy" and bool(settings.quota or settings.quota_messages)
        if option not in ("id", "groups") and (is_said or value != getattr(default, option)):
            found[option] = value
    for option in type(groups).model_fields:
        value = getattr(groups, option)
        is_said = option == "strategy" and groups.header is not None
        if is_said or value != getattr(default.groups, option):
            found[GROUP_PREFIX + option] = value
    return found
