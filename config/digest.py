"""Digest: a short hash of a configuration, by which brokers of a cluster see that theirs differ.

Settings that differ by design are left out: a broker's name, addresses, certificates, directories.
Passwords are included. The digest reveals nothing of them: it is a part of a hash of everything.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Final

from covey.config.settings import Settings

LENGTH: Final = 12  # hexadecimal digits
OWN: Final = {
    "store": ("path", "dsn"),
    "cluster": ("node", "forward", "tls"),
    "event_log": ("dir",),
}
OWN_IN_CONNECTOR: Final = ("bind", "tls")


def digest(settings: Settings) -> str:
    """Return the digest of a configuration."""
    found = settings.model_dump(mode="json")
    for table, names in OWN.items():
        for name in names:
            found[table].pop(name, None)
    for connector in found["connectors"]:
        for name in OWN_IN_CONNECTOR:
            connector.pop(name, None)
    secrets = [[user.name, user.password.get_secret_value()] for user in settings.users]
    text = json.dumps([found, secrets], sort_keys=True, default=str)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:LENGTH]
