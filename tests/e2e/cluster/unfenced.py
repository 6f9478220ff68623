"""A broker whose fence is off, to show that the checker sees what the fence prevents.

`python -m tests.e2e.cluster.unfenced serve ..` is `covey serve ..`, but its commits and renewals
change the row of a virtual host whoever owns it, and the next owner does not stop it. The journal's
key would refuse such a commit, too, so a test drops that key (`take_off`).
"""

from __future__ import annotations

import sys

from covey.core.storage.postgres import former, idle, lease
from tests.core.storage.postgres.server import Postgres

FENCE = "and epoch = %s"
UNFENCED = "and (epoch = %s or true)"
TAIL = "and tail = %s"


def _open(text: str) -> str:
    """Return a statement that asks for no owner and no number of a commit."""
    return text.replace(FENCE, UNFENCED).replace(TAIL, "and (tail = %s or true)")


def take_off(postgres: Postgres) -> None:
    """Let two brokers write the journal of a virtual host."""
    with postgres.connect() as connection:
        connection.execute("alter table covey_journal drop constraint covey_journal_pkey")


if __name__ == "__main__":
    for name in ("HOLD", "FENCE", "RECORDS_FENCE", "ROW", "RENEW"):
        text = getattr(lease, name)
        assert _open(text) != text, f"{name} has no fence"
        setattr(lease, name, _open(text))
    # Nor does the next owner end what the former one has begun, or a renewal tell who has it.
    vars(former)["END"] += " and false"
    vars(idle)["RENEW_ALL"] = idle.RENEW_ALL.replace("and s.epoch = x.epoch", "")
    from covey.__main__ import main  # the engine takes the statements when it is loaded

    sys.exit(main())
