"""Slices: every slice of compiled code is watched while plain Python runs it.

In plain Python a slice whose end is before its start is empty. Compiled by mypyc, such a slice of
bytes raises SystemError. A run of the compiled build shows that only where the numbers happen to
fall so. An index is the same in both builds, also below zero. Integers have any size in both, as no
compiled file has those of a fixed width. So slices are all there is to watch. Here the source is
loaded with a look at the two numbers of each slice, and raises what the compiled build would. Any
tests can be run so:

    COVEY_WATCH_SLICES=1 scripts/test tests/protocols tests/core
"""

from __future__ import annotations

import ast
import builtins
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Iterable
from types import CodeType
from typing import Final

from typing_extensions import Buffer

MARK: Final = b"# Compiled by mypyc"
WATCH: Final = "_watched_slice"


def watched(value: object, start: object, end: object) -> object:
    """Return `value[start:end]`; raise what the compiled build would, if it runs backward."""
    if isinstance(value, bytes | bytearray | str) and isinstance(end, int):
        first, last, _ = slice(start, end).indices(len(value))
        if first > last:
            kind = type(value).__name__
            raise SystemError(f"{kind}[{start}:{end}] of {len(value)} runs backward")
    return value[start:end]  # type: ignore[index]


class Watch(ast.NodeTransformer):
    """Puts `watched` in the place of each slice that is read."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Replace a slice without a step."""
        self.generic_visit(node)
        part = node.slice
        is_read = isinstance(node.ctx, ast.Load)
        if not is_read or not isinstance(part, ast.Slice) or part.step is not None:
            return node
        numbers = [part.lower or ast.Constant(None), part.upper or ast.Constant(None)]
        call = ast.Call(ast.Name(WATCH, ast.Load()), [node.value, *numbers], [])
        return ast.copy_location(call, node)


class WatchingLoader(importlib.machinery.SourceFileLoader):
    """Loads compiled modules from their source, with their slices watched."""

    def get_code(self, fullname: str) -> CodeType | None:
        """Compile the source anew: what lies in a cache is not watched."""
        data = self.get_data(self.path)
        if not data.startswith(MARK):
            return super().get_code(fullname)
        return self.source_to_code(data, self.path)

    def source_to_code(  # type: ignore[override]
        self, data: Buffer | str, path: str, *, _optimize: int = -1
    ) -> CodeType:
        """Put the watch in."""
        text = data if isinstance(data, str) else bytes(data).decode()
        if not text.startswith(MARK.decode()):
            return super().source_to_code(data, path)
        tree = ast.fix_missing_locations(Watch().visit(ast.parse(text)))
        return compile(tree, path, "exec", dont_inherit=True)


class Finder(importlib.abc.MetaPathFinder):
    """Finds covey's own modules first."""

    def find_spec(
        self, fullname: str, path: Iterable[str] | None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return a spec with the watching loader."""
        if fullname.partition(".")[0] != "covey":
            return None
        where = None if path is None else list(path)
        spec = importlib.machinery.PathFinder.find_spec(fullname, where)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = WatchingLoader(fullname, spec.loader.path)
        return spec


def watch() -> None:
    """Watch the modules of covey that are imported from now on."""
    setattr(builtins, WATCH, watched)
    sys.meta_path.insert(0, Finder())
