"""Management client: asks a broker's `$management` node over AMQP, and waits for the answer.

The client blocks and sends one request at a time. It is made for commands that run and end. The
class of an error (`client.errors`) tells a command which exit code to choose.
"""

from __future__ import annotations

from typing import Any

from proton import ConnectionException, Message, ProtonException, Timeout
from proton.utils import LinkDetached, SyncRequestResponse

from covey.client.base import TIMEOUT_S, Closing
from covey.client.errors import AnswerError, ClientError, DeniedError
from covey.client.place import Place
from covey.client.proton_connection import close, connect, refusal, why

PORT = 5672
TYPE_PREFIX = "covey."
CLUSTER_HOST = "$cluster"  # the virtual host that tells of a cluster
FIRST_FAILURE = 300
STATUS_DENIED = 403
NO_STATUS = 500  # an answer without a status counts as a failure
LOGIN_ENDED = "has changed: log in again"  # so the broker ends connections of a changed user
PAGE = 500  # rows asked for at a time: a large answer is cut into several

Row = dict[str, Any]


class Management(Closing):
    """A connection to one broker's management node."""

    def __init__(self, place: Place, timeout_s: float | None = TIMEOUT_S) -> None:
        """Connect, or raise UnreachableError or DeniedError."""
        self.place = place
        self._connection = connect(place, timeout_s)
        try:
            self._requests = SyncRequestResponse(self._connection, "$management")
        except LinkDetached as error:  # a user who may log in may still lack the right to manage
            raise refusal(error.link.remote_condition) from error
        except (ConnectionException, Timeout, OSError, ProtonException) as error:
            raise why(error, place) from error

    def close(self) -> None:
        """Let the broker go; one that is gone already is no trouble."""
        close(self._connection)

    def ask(
        self,
        operation: str,
        type_name: str = "",
        name: str = "",
        body: Row | None = None,
        **options: object,
    ) -> Row:
        """Send one request; return the body of its answer, or raise AnswerError or DeniedError."""
        properties: dict[str, object] = {"operation": operation, **options}
        if type_name:
            properties["type"] = TYPE_PREFIX + type_name
        if name:
            properties["name"] = name
        try:
            answer = self._requests.call(Message(properties=properties, body=body or {}))
        except (ConnectionException, Timeout, OSError, ProtonException) as error:
            raise why(error, self.place) from error
        found: dict[Any, Any] = answer.properties or {}
        status = int(found.get("statusCode", NO_STATUS))
        text = str(found.get("statusDescription", ""))
        if status == STATUS_DENIED:
            raise DeniedError(text)
        if status >= FIRST_FAILURE:
            raise AnswerError(text)
        return _row(_plain(answer.body)) if isinstance(answer.body, dict) else {}

    def change_user(self, operation: str, name: str, fields: Row | None = None) -> Row:
        """Change or remove a user.

        Connections of a changed user end. So whoever changes its own user hears of that alone.
        """
        body = None if fields is None else {"arguments": fields}
        try:
            return self.ask(operation, "user", name, body)
        except ClientError as error:
            if name != self.place.user or LOGIN_ENDED not in str(error):
                raise
        return {"name": name}

    def query(
        self,
        type_name: str,
        most: int | None = None,
        *,
        queue: str = "",
        waiting: bool = False,
        parked: bool = False,
    ) -> list[Row]:
        """Return the entities of one type, `most` at most; of one queue, or only waiting ones."""
        found: list[Row] = []
        while True:
            answer = self.ask(
                "QUERY",
                body={
                    "attributeNames": [],
                    "queue": queue,
                    "waiting": waiting,
                    "parked": parked,
                },
                entityType=TYPE_PREFIX + type_name,
                offset=len(found),
                count=PAGE if most is None else min(PAGE, most - len(found)),
            )
            names = [str(name) for name in answer["attributeNames"]]
            rows = [_row(dict(zip(names, row, strict=True))) for row in answer["results"]]
            found += rows
            total = int(answer.get("total", len(found)))
            if not rows or len(found) >= min(total, total if most is None else most):
                return found

    def read(self, type_name: str, name: str) -> Row:
        """Return one entity."""
        return self.ask("READ", type_name, name)

    def group(self, queue: str, group: str) -> Row:
        """Return one group of a queue."""
        return self.ask("READ", "group", queue, group=group)

    def groups(self, queue: str, *, parked: bool = False) -> list[Row]:
        """Return the groups of one queue, or its parked ones; AnswerError if there is no queue."""
        return self.query("group", queue=queue, parked=parked)


def _row(found: Row) -> Row:
    """Remove what only programs need: the identity, and the prefix of the type's name."""
    found.pop("identity", None)
    if "type" in found:
        found["type"] = str(found["type"]).removeprefix(TYPE_PREFIX)
    return found


def _plain(value: Any) -> Any:
    """Turn proton's types into Python's own: its integers would print as `int32(1)`."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    return int(value)
