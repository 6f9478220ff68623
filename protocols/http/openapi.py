"""OpenAPI: the table of routes as a document that tools read (OpenAPI 3.1).

The document says nothing that the table does not say. Paths, queries and bodies are the table's
own. The shapes of answers come from `core.management.describe`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from covey.core.management.describe import ATTRIBUTES, Attributes, Plain
from covey.protocols.http.answer import STATUS
from covey.protocols.http.routing import Need, Param, Route
from covey.protocols.http.schemas import Body

PLACE: Final = re.compile(r"\{(\w+)\}")
SCHEMAS: Final = "#/components/schemas/"
ERROR: Final[Attributes] = {
    "type": "object",
    "required": ["code", "text"],
    "properties": {"code": {"enum": list(STATUS)}, "text": {"type": "string"}},
}


def document(routes: Sequence[Route], version: str) -> Attributes:
    """Write the document."""
    paths: dict[str, dict[str, Plain]] = {}
    schemas: dict[str, Plain] = {"error": ERROR}
    for name, attributes in ATTRIBUTES.items():
        schemas[name] = {"type": "object", "required": list(attributes)}
        schemas[f"{name}_page"] = _page_of(name)
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
        if route.body is not None:
            schemas.update(_schemas(route.body))
    return {
        "openapi": "3.1.0",
        "info": {"title": "Covey", "version": version},
        "security": [{"basic": []}],
        "paths": {path: dict(operations) for path, operations in paths.items()},
        "components": {
            "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
            "schemas": schemas,
        },
    }


def _operation(route: Route) -> Plain:
    places: list[Plain] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in PLACE.findall(route.path)
    ]
    operation: Attributes = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "x-need": route.need.value,
        "parameters": [*places, *(_parameter(param) for param in route.query)],
        "responses": _responses(route),
    }
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": _json(route.body.__name__)}
    if route.need in (Need.NOTHING, Need.OPEN):
        operation["security"] = []
    return operation


def _operation_id(route: Route) -> str:
    words = re.findall(r"\w+", route.path) or ["page"]
    return "_".join([route.method.lower(), *words])


def _parameter(param: Param) -> Plain:
    schema: Attributes = {"default": param.default}
    if isinstance(param.default, bool):
        schema["type"] = "boolean"
    elif isinstance(param.default, int):
        schema |= {"type": "integer", "minimum": param.least, "maximum": param.most}
    else:
        schema["type"] = "string"
    return {"name": param.name, "in": "query", "description": param.text, "schema": schema}


def _responses(route: Route) -> Plain:
    good: Attributes = {"description": "done"}
    if route.status != 204:
        shape = _shape(route)
        good["content"] = _json(shape) if shape else {route.media_type: {"schema": {}}}
    responses: Attributes = {str(route.status): good}
    if route.need is Need.NOTHING:
        responses["503"] = {"description": "not now", "content": _json("")}
    responses["default"] = {"description": "refused", "content": _json("error")}
    return responses


def _shape(route: Route) -> str:
    """Return the name of the answer's schema; "" if only this route has such an answer."""
    if route.entity not in ATTRIBUTES or route.path.endswith("/messages"):
        return ""
    if route.media_type != "application/json":
        return ""
    is_list = route.method == "GET" and not route.path.endswith("}") and route.entity != "broker"
    return f"{route.entity}_page" if is_list else route.entity


def _page_of(name: str) -> Plain:
    return {
        "type": "object",
        "required": ["items", "total"],
        "properties": {
            "items": {"type": "array", "items": {"$ref": SCHEMAS + name}},
            "total": {"type": "integer"},
        },
    }


def _json(name: str) -> Attributes:
    return {"application/json": {"schema": {"$ref": SCHEMAS + name} if name else {}}}


def _schemas(body: type[Body]) -> dict[str, Plain]:
    """Return a body's schema and those it refers to, each under its own name."""
    whole = body.model_json_schema(ref_template=SCHEMAS + "{model}")
    found: dict[str, Plain] = dict(whole.pop("$defs", {}))
    found[body.__name__] = whole
    return found
