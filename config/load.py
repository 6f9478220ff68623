"""Read the configuration: command line over environment over files over defaults.

This is the only file of this package that reads files. The main file comes first, then
`conf.d/*.toml` beside it, sorted by name. Without any file the defaults are a working
configuration. All problems of all layers are gathered before the configuration is refused. The
result tells each value's origin. Loading changes nothing: a caller that reloads keeps its old
settings when this raises.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from covey.config.errors import ConfigError, Problem
from covey.config.explain import explain
from covey.config.overrides import Override, apply, from_arguments, from_environment
from covey.config.record import Record
from covey.config.settings import DEFAULT_CONNECTORS, DEFAULT_USERS, DEFAULT_VIRTUAL_HOSTS, Settings
from covey.config.tree import KeyPath, Tree, dotted, key_lines

# Default lists. Overrides can change their entries even if no file has these lists.
_SEEDS: dict[str, tuple[Record, ...]] = {
    "virtual_host": DEFAULT_VIRTUAL_HOSTS,
    "connector": DEFAULT_CONNECTORS,
    "user": DEFAULT_USERS,
}

# A function that yields the path of each key with a bad value, and what is wrong with the value;
# `core.management.settings_check` has one.
Examine = Callable[[Settings], Iterable[tuple[KeyPath, str]]]

_SYNTAX_LINE = re.compile(r" \(at line (\d+), column \d+\)$")
_LOOPBACK_HOSTS = ("localhost", "::1")


@dataclass(frozen=True, slots=True)
class Loaded:
    """Checked settings, where each value came from, and what is allowed but looks unwise."""

    settings: Settings
    origins: dict[str, str]
    """Key path -> `default`, `file:line`, `env NAME` or `argument`."""
    warnings: list[str]


def load(
    path: Path | None,
    environ: Mapping[str, str],
    arguments: Mapping[str, object],
    examine: Examine | None = None,
) -> Loaded:
    """Return the settings in force, or raise ConfigError with every problem there is.

    `arguments` maps dotted keys (`store.path`, `stomp.bind`) to values; None means not given.
    `examine` checks settings that are well formed, and yields what else is wrong with them.
    """
    tree = Tree()
    for file in _files(path):
        _read_into(tree, file)
    for name, entries in _SEEDS.items():
        tree.seed(name, [entry.model_dump(exclude_unset=True) for entry in entries])
    apply(tree, _secrets_read(tree, from_environment(environ)))
    apply(tree, from_arguments(arguments))
    settings = _checked(tree, examine)
    return Loaded(settings, _origins(settings, tree), _warnings(settings))


def _files(path: Path | None) -> list[Path]:
    if path is None:
        return []
    return [path, *sorted(path.parent.glob("conf.d/*.toml"))]


def _read_into(tree: Tree, file: Path) -> None:
    try:
        text = file.read_text("utf-8-sig")  # Windows editors put a byte order mark first
        data = tomllib.loads(text)
    except OSError as error:
        tree.problems.append(Problem(str(file), 0, "", f"cannot be read: {error.strerror}"))
    except UnicodeDecodeError as error:
        tree.problems.append(Problem(str(file), 0, "", f"is not UTF-8 at byte {error.start}"))
    except tomllib.TOMLDecodeError as error:
        found = _SYNTAX_LINE.search(str(error))
        line = int(found.group(1)) if found else 0
        text = _SYNTAX_LINE.sub("", str(error))
        tree.problems.append(Problem(str(file), line, "", f"not TOML: {text}"))
    else:
        tree.add_file(str(file), data, key_lines(text))


def _secrets_read(tree: Tree, overrides: list[Override]) -> list[Override]:
    """`..__PASSWORD_FILE` names a file that holds the password, as container secrets do."""
    read: list[Override] = []
    for override in overrides:
        if override.parts[-1] != "password_file":
            read.append(override)
            continue
        try:
            secret = Path(str(override.value)).read_text("utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError):
            place = override.place
            text = f"cannot read the file {override.value}"
            tree.problems.append(Problem(place.file, 0, place.key, text))
        else:
            parts = (*override.parts[:-1], "password")
            read.append(replace(override, parts=parts, value=secret))
    return read


def _checked(tree: Tree, examine: Examine | None) -> Settings:
    problems = list(tree.problems)
    try:
        settings = Settings.model_validate(tree.root)
    except ValidationError as refusal:
        problems += explain(refusal, tree)
    else:
        for path, text in examine(settings) if examine is not None else ():
            place = tree.place(path)
            problems.append(Problem(place.file, place.line, place.key, text))
    if problems:
        # One override may reach several connectors; its mistake is told once.
        once = dict.fromkeys(problems)
        raise ConfigError(sorted(once, key=lambda problem: (problem.file, problem.line)))
    return settings


def _origins(settings: Settings, tree: Tree) -> dict[str, str]:
    values = settings.model_dump(by_alias=True)
    return {dotted(path): tree.origin(path) for path in _leaves(values, ())}


def _leaves(node: object, path: KeyPath) -> Iterator[KeyPath]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _leaves(value, (*path, key))
    elif isinstance(node, tuple) and node and isinstance(node[0], dict):
        for index, entry in enumerate(node):
            yield from _leaves(entry, (*path, index))
    else:
        yield path


def _warnings(settings: Settings) -> list[str]:
    warnings: list[str] = []
    outside = [each for each in settings.connectors if not _is_loopback(each.host)]
    if any(user in DEFAULT_USERS for user in settings.users):
        warnings += [
            f"connector {connector.id} listens on {connector.bind}, but admin still has the"
            " default password, which is accepted from loopback only"
            for connector in outside
        ]
    names = [name for host in settings.virtual_hosts for name in host.host_names]
    if outside and all(_is_loopback(name) for name in names):
        warnings.append(
            f"connector {outside[0].id} listens on {outside[0].bind}, but a client that calls the"
            f" broker anything but {', '.join(names)} is refused: host_names of [[virtual_host]]"
            " lists the names it may use"
        )
    for kind, ids in (
        ("queue", [queue.id for queue in settings.queues if not queue.id.startswith("dsub:")]),
        ("topic", [topic.id for topic in settings.topics]),
    ):
        unreached = ids[ids.index("**") + 1 :] if "**" in ids else []
        warnings += [
            f"{kind} {name} is never used: an earlier entry ** matches first" for name in unreached
        ]
    return warnings


def _is_loopback(host: str) -> bool:
    return host in _LOOPBACK_HOSTS or host.startswith("127.")
