"""Management client: asks a broker's `$management` node over AMQP, and waits for the answer.

Blocking, one request at a time, made for commands that run and end. Failures are told apart by
their class, so that a command can choose its exit code: nobody there, not allowed, refused.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from proton import ConnectionException, Message, ProtonException, Timeout
from proton.utils import BlockingConnection, SyncRequestResponse

TYPE_PREFIX = "covey."
FIRST_FAILURE = 300
NO_STATUS = 500  # an answer without a status is a failure, too
PAGE = 500  # rows asked for at a time: a large answer is cut into several


class ManagementError(Exception):
    """The broker answered no; `status` is its code."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class UnreachableError(Exception):
    """Nobody answers at that address."""


class DeniedError(Exception):
    """The broker is there and does not let us in."""


class Management:
    """A connection to one broker's management node."""

    def __init__(
        self, address: str, user: str, password: str, timeout_s: float | None = 10.0
    ) -> None:
        """Connect; `address` is host:port."""
        try:
            self._connection = BlockingConnection(
                f"amqp://{address}",
                timeout=timeout_s,
                user=user,
                password=password,
                allowed_mechs="PLAIN",
                allow_insecure_mechs=True,
                reconnect=False,
            )
            self._requests = SyncRequestResponse(self._connection, "$management")
        except (ConnectionException, Timeout, OSError, ProtonException) as error:
            raise _why(error, address) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let the broker go."""
        self._connection.close()

    def ask(
        self,
        operation: str,
        type_name: str = "",
        name: str = "",
        body: dict[str, object] | None = None,
        **options: object,
    ) -> dict[str, Any]:
        """Send one request; return the body of its answer or raise ManagementError."""
        properties: dict[str, object] = {"operation": operation, **options}
        if type_name:
            properties["type"] = TYPE_PREFIX + type_name
        if name:
            properties["name"] = name
        request = Message(properties=properties, body=body or {})
        answer = self._requests.call(request)
        found: dict[Any, Any] = answer.properties or {}
        status = int(found.get("statusCode", NO_STATUS))
        if status >= FIRST_FAILURE:
            raise ManagementError(status, str(found.get("statusDescription", "")))
        return answer.body if isinstance(answer.body, dict) else {}

    def query(self, type_name: str) -> list[dict[str, Any]]:
        """Return everything of one type."""
        found: list[dict[str, Any]] = []
        while True:
            answer = self.ask(
                "QUERY",
                body={"attributeNames": []},
                entityType=TYPE_PREFIX + type_name,
                offset=len(found),
                count=PAGE,
            )
            names = [str(name) for name in answer["attributeNames"]]
            rows = [dict(zip(names, row, strict=True)) for row in answer["results"]]
            found += rows
            if len(rows) < PAGE:
                return found


def _why(error: Exception, address: str) -> Exception:
    text = str(error)
    if "unauthorized" in text or "Authentication" in text:
        return DeniedError(f"{address} refused the login")
    return UnreachableError(f"no broker answers at {address}")
