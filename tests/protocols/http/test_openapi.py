"""OpenAPI: the document is right, and requests made from it never break the broker."""

from __future__ import annotations

import json
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
)

from covey.core.management.describe import ATTRIBUTES
from covey.protocols.http.openapi import document
from covey.protocols.http.routes import ROUTES
from tests.protocols.http.support import ADMIN, World

DOCUMENT: Any = document(ROUTES, "1")
WORLD = World()
WORLD.send("0", "0")
WORLD.app.console.streams.end()  # a stream of events begins and ends at once

schema = schemathesis.openapi.from_dict(json.loads(json.dumps(DOCUMENT)))
schema.config.generation.update(modes=[GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
schema.app = WORLD.app


@schema.parametrize()
@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_no_request_breaks_it(case: schemathesis.Case[Any]) -> None:
    answer = case.call(auth=ADMIN, base_url="http://127.0.0.1", headers={"host": "127.0.0.1"})
    assert answer.status_code != 500, answer.text
    case.validate_response(
        answer,
        checks=[
            schemathesis.checks.not_a_server_error,
            response_schema_conformance,
            content_type_conformance,
        ],
    )


def test_every_route_stands_in_it_once() -> None:
    paths = DOCUMENT["paths"]
    rows = [(path, method) for path, methods in paths.items() for method in methods]
    assert sorted(rows) == sorted((route.path, route.method.lower()) for route in ROUTES)


def test_operations_have_names_of_their_own() -> None:
    text = json.dumps(DOCUMENT)
    names = text.split('"operationId": "')[1:]
    assert len({name.partition('"')[0] for name in names}) == len(ROUTES)


def test_every_reference_leads_somewhere() -> None:
    text = json.dumps(DOCUMENT)
    schemas = DOCUMENT["components"]["schemas"]
    found = {part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert found - set(schemas) == set()


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_every_type_of_the_core_has_a_schema(name: str) -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert schemas[name]


def test_it_is_served() -> None:
    assert WORLD.get("/api/v1/openapi.json")["openapi"] == "3.1.0"
