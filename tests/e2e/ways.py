"""Every way in to one broker in process: AMQP addresses, `$management`, HTTP and STOMP.

The engines are real and fed with bytes; what the broker's audit hears is kept as log lines.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, Final

import structlog
from proton import Message
from pydantic import SecretStr

from covey.config.settings import (
    AmqpSettings,
    PermissionSettings,
    Settings,
    StompSettings,
    UserSettings,
)
from covey.protocols.stomp.engine import StompEngine
from covey.server.log_audit import LogAudit
from tests.protocols.amqp.peer import Peer
from tests.protocols.http.support import ADMIN, USERS
from tests.protocols.http.support import World as HttpWorld

JOE: Final = ("joe", "secret-of-joe")
PLAIN: Final = AmqpSettings(sasl_mechanisms=("PLAIN",))
REPLIES: Final = ("send,consume,create", "queue:temp.**")  # a requester's own node

Rule = tuple[str, str]  # verbs, and what they are allowed on
Line = MutableMapping[str, Any]


class Ways:
    """A broker, and clients of it that do one thing each."""

    def __init__(self, *rules: Rule, **settings: Any) -> None:
        """Let joe do what the rules say, and the admin everything."""
        joe = UserSettings(name=JOE[0], password=SecretStr(JOE[1]))
        given = (("connect", "**"), REPLIES, *rules)
        permissions = [
            PermissionSettings.model_validate({"who": "joe", "may": may.split(","), "on": on})
            for may, on in given
        ]
        hasty = {"login_failed_wait_s": 0}
        whole = {"user": (*USERS, joe), "permission": permissions, "broker": hasty, **settings}
        self.lines: list[Line] = []
        log = structlog.wrap_logger(None, processors=[self._keep])
        self.http = HttpWorld(Settings.model_validate(whole), audit=LogAudit(log))
        self.broker = self.http.broker
        self.host = self.broker.host

    def _keep(self, logger: object, level: str, event: Line) -> Line:
        self.lines.append({**event, "level": level})
        raise structlog.DropEvent

    def of(self, event: str) -> list[Line]:
        """Return the log lines of one event."""
        return [line for line in self.lines if line["event"] == event]

    # Clients.

    def amqp(self, login: tuple[str, str] = ADMIN) -> Peer:
        """Connect over AMQP."""
        return Peer(self.broker, PLAIN, login=login)

    def manage(
        self, operation: str, body: Any = None, login: tuple[str, str] = ADMIN, **properties: Any
    ) -> int:
        """Ask `$management`; return the status."""
        peer = self.amqp(login)
        reply_to = peer.receiver(None, dynamic=True).remote_source.address
        sender = peer.sender("$management")
        request = Message(
            body=body, id=1, reply_to=reply_to, properties={"operation": operation, **properties}
        )
        peer.send(sender, request)
        peer.pump()
        answer = peer.messages.pop()[1]
        peer.lose()
        assert answer.properties is not None
        return int(answer.properties["statusCode"])

    def ask(self, method: str, path: str, login: tuple[str, str] = ADMIN, **given: Any) -> int:
        """Ask over HTTP; return the status."""
        return self.http.ask(method, f"/api/v1{path}", login, **given).status_code

    def stomp(self, *frames: str, login: tuple[str, str] = ADMIN) -> bytes:
        """Connect over STOMP, send frames and leave; return what was answered."""
        engine = StompEngine(self.broker, StompSettings(), remote="192.0.2.9:7", now=1.0)
        hello = (
            f"CONNECT\naccept-version:1.2\nhost:localhost\nlogin:{login[0]}\npasscode:{login[1]}"
        )
        for frame in (hello, *frames):
            if not engine.is_closed:
                engine.receive(f"{frame}\n\n\0".encode(), 1.0)
        engine.tick(1.0)
        said = engine.outgoing()
        engine.lost(1.0)
        return said
