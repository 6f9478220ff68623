"""A record's refusal, in words for the operator: place, key, cause, and the nearest valid name.

Pydantic tells the path and the kind of each error. The tree tells where that value was written.
The records tell which names would have been valid. A password never appears in a text.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Annotated, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from covey.config.errors import Problem
from covey.config.record import OTHER_NAMES, plain_name
from covey.config.settings import REPEATED, Settings
from covey.config.tree import KeyPath, Tree

_SECRETS = frozenset({"password"})


def explain(refusal: ValidationError, tree: Tree) -> list[Problem]:
    """Turn each of pydantic's errors into a problem at the place where its value was written."""
    errors = refusal.errors(include_url=False)
    # A list whose entries were refused seems too short. The errors of its entries say why, so the
    # error about the length is left out.
    refused = {error["loc"][:-2] for error in errors if len(error["loc"]) > 1}
    return [
        _problem(error, tree)
        for error in errors
        if error["type"] != "too_short" or error["loc"] not in refused
    ]


def _problem(error: ErrorDetails, tree: Tree) -> Problem:
    path: KeyPath = error["loc"]
    if error["type"] == REPEATED:
        path = (*path, error["ctx"]["index"], error["ctx"]["field"])
    place = tree.place(path)
    return Problem(place.file, place.line, place.key, cause(error), _hint(error))


def cause(error: ErrorDetails) -> str:
    """Say what is wrong with one value."""
    kind, given, path = error["type"], error["input"], error["loc"]
    context = error.get("ctx", {})
    if kind == "extra_forbidden":
        return "unknown key"
    if kind == "missing":
        return "is needed"
    if kind == "tuple_type":
        return f"is a list: write {_header(path)}" if _record_at(path) else "a list is needed"
    if kind == "too_short":
        return "one entry at least is needed"
    if kind == "model_type":
        return f"is a table: write {_header(path)}"
    if kind == "value_error":
        return str(context["error"])
    text = error["msg"].removeprefix("Input ").partition(", unable to parse")[0]
    is_shown = isinstance(given, str | int | float) and path[-1] not in _SECRETS
    return f"{text}, not {given!r}" if is_shown and kind != "unknown_strategy" else text


def _header(path: KeyPath) -> str:
    """Write the line that begins a table: [[queue]], [queue.groups]."""
    names = [part for part in path if isinstance(part, str)]
    record = _record_at(tuple(names[:-1]))
    annotation = _annotation(record, names[-1]) if record is not None else None
    name = ".".join(names)
    return f"[[{name}]]" if _is_list(annotation) else f"[{name}]"


def _is_list(annotation: object) -> bool:
    """Return True if entries of this kind come in a list."""
    if get_origin(annotation) in (Union, types.UnionType, Annotated):
        return any(_is_list(inner) for inner in get_args(annotation))
    return get_origin(annotation) is tuple


def _hint(error: ErrorDetails) -> str:
    path = error["loc"]
    if error["type"] == "extra_forbidden":
        record = _record_at(path[:-1])
        return _nearest(plain_name(str(path[-1])), _names(record) if record else [])
    if error["type"] == "unknown_strategy":
        return _nearest(str(error["input"]), error["ctx"]["names"])
    if error["type"] == "literal_error":
        return _nearest(str(error["input"]), _choices(path))
    return ""


def _nearest(name: str, names: Sequence[str]) -> str:
    by_case = {valid.lower(): valid for valid in names}
    found = get_close_matches(name.lower(), by_case, 1)
    if not found:
        return ""
    valid = by_case[found[0]]
    return OTHER_NAMES.get(valid, valid)


def _names(record: type[BaseModel]) -> list[str]:
    ours = [field.alias or name for name, field in record.model_fields.items()]
    return ours + [other for other, name in OTHER_NAMES.items() if name in ours]


def _record_at(path: KeyPath) -> type[BaseModel] | None:
    """Follow a path through the records' fields; None where it leaves them."""
    record: type[BaseModel] | None = Settings
    for part in path:
        if record is not None and not isinstance(part, int):
            record = _record_in(_annotation(record, part))
    return record


def _annotation(record: type[BaseModel], key: str) -> object:
    for name, field in record.model_fields.items():
        if key in (name, field.alias):
            return field.annotation
    return None


def _record_in(annotation: object) -> type[BaseModel] | None:
    """Find the record in `X`, `X | None`, `tuple[X, ...]` or an annotated one of these."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (Union, types.UnionType, tuple, Annotated):
        for inner in get_args(annotation):
            record = _record_in(inner)
            if record is not None:
                return record
    return None


def _choices(path: KeyPath) -> list[str]:
    record = _record_at(path[:-1])
    if record is None:
        return []
    annotation = _annotation(record, str(path[-1]))
    return [str(one) for one in get_args(annotation)] if get_origin(annotation) is Literal else []
