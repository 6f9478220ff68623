"""Route: how a path and a query are read."""

from __future__ import annotations

import pytest

from covey.protocols.http.answer import HttpError
from covey.protocols.http.routes import ROUTES
from covey.protocols.http.routing import Param, find


def test_a_name_is_decoded_after_the_path_is_cut() -> None:
    route, names = find(ROUTES, "POST", b"/api/v1/queues/a%2Fb/groups/%2E%2E%2Fx%2F/close")
    assert route.path == "/api/v1/queues/{name}/groups/{group}/close"
    assert names == {"name": "a/b", "group": "../x/"}


def test_head_is_asked_like_get() -> None:
    assert find(ROUTES, "HEAD", b"/livez")[0].path == "/livez"


@pytest.mark.parametrize("path", [b"", b"//", b"/livez/", b"livez", b"\xff", b"/%2Flivez"])
def test_other_paths_are_not_found(path: bytes) -> None:
    with pytest.raises(HttpError) as error:
        find(ROUTES, "GET", path)
    assert error.value.code == "not-found"


@pytest.mark.parametrize(
    ("default", "given", "value"),
    [(0, "7", 7), (0, "007", 7), (False, "true", True), (True, "false", False), ("", "x", "x")],
)
def test_a_field_has_the_type_of_its_default(
    default: int | bool | str, given: str, value: int | bool | str
) -> None:
    assert Param("p", default, "").read(given) == value


@pytest.mark.parametrize(
    ("default", "given"), [(0, ""), (0, "+1"), (0, "9" * 30), (0, "²"), (False, "1"), (True, "")]
)
def test_what_is_not_of_its_type_is_refused(default: int | bool, given: str) -> None:
    with pytest.raises(HttpError):
        Param("p", default, "").read(given)


def test_a_query_of_very_many_fields_is_refused() -> None:
    route, _ = find(ROUTES, "GET", b"/api/v1/queues")
    with pytest.raises(HttpError):
        route.settings(b"&".join([b"limit=1"] * 100))
