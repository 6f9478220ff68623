"""Imports: which room of the source imports which, read from the files themselves.

A room is a folder of `core/` or `protocols/`, or another folder of the package. The order of the
rooms is that of the contracts in pyproject.toml, which import-linter checks. Imports that only
serve a type checker do not count here, as in those contracts.
"""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "covey"
SPLIT = ("core", "protocols")  # folders of these are rooms of their own


# The registry lies beside the wire protocols. Only the server reads it, so it counts as server.
REGISTRY = f"{PACKAGE}.protocols.registry"
COUNTED_ABOVE = f"{PACKAGE}.server"


def rooms() -> list[str]:
    """Return every room, from the top to the bottom."""
    found: list[str] = []
    for layer in _layers("Layers"):
        for name in layer:
            if name == "core":
                found += [room for under in _layers("Rooms of the core") for room in under]
            elif name in SPLIT:
                folders = (ROOT / name).glob("*/__init__.py")
                found += [f"{name}/{file.parent.name}" for file in sorted(folders, reverse=True)]
            found.append(name)
    return [room for room in dict.fromkeys(found) if _folder(room).is_dir()]


def imports() -> Counter[tuple[str, str]]:
    """Count the imports from room to room: (who imports, what is imported)."""
    known = set(rooms())
    found: Counter[tuple[str, str]] = Counter()
    for room in known:
        for file in sorted(_folder(room).rglob("*.py")):
            importer = room_of(_module(file), known)
            if importer != room:
                continue  # a room within this one
            targets = {room_of(name, known) for name in _imported(ast.parse(file.read_text()))}
            found.update((room, target) for target in targets if target and target != room)
    return found


def room_of(module: str, known: set[str]) -> str:
    """Return the room of a module's name; "" if it has none."""
    parts = (COUNTED_ABOVE if module == REGISTRY else module).split(".")
    if parts[0] != PACKAGE or len(parts) < 2:
        return ""
    inner = "/".join(parts[1:3])
    return inner if inner in known else parts[1] if parts[1] in known else ""


def _layers(contract: str) -> list[list[str]]:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (layers,) = [each["layers"] for each in tool["contracts"] if each["name"] == contract]
    return [[_place(name) for name in layer.split(" | ")] for layer in layers]


def _place(module: str) -> str:
    return module.removeprefix(f"{PACKAGE}.").replace(".", "/")


def _folder(room: str) -> Path:
    return ROOT / "src" / PACKAGE / room


def _module(file: Path) -> str:
    return ".".join(file.relative_to(ROOT / "src").with_suffix("").parts)


def _imported(tree: ast.AST) -> Iterator[str]:
    """Yield the modules that a file imports when it runs."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            # `from covey.core import errors` names a module, too
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        else:
            yield from _imported(node)
