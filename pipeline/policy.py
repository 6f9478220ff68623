"""Policy: a group strategy with its one size, as text, as an object and as configuration.

    shared   simple   lru:1024   hash-buckets:1024   consistent-hash:100

The number is the cache's size, the number of buckets or the points on the ring; left out, it is
the configuration's default. Names are checked by the configuration itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from pydantic import ValidationError

from covey.config.queues import GroupSettings
from covey.core.event_log import HOST_MARK
from covey.groups import GroupStrategy, make
from covey.groups.shared import Shared
from covey.pipeline.errors import PipelineError

SIZE_KEYS: Final = {
    "lru": "cache_size",
    "hash-buckets": "bucket_count",
    "consistent-hash": "ring_points",
}

DEFAULT_POLICIES: Final = (
    "shared,simple,lru:256,lru:1024,hash-buckets:64,hash-buckets:1024,"
    "consistent-hash:10,consistent-hash:100"
)


@dataclass(frozen=True, slots=True)
class Policy:
    """One way to own groups."""

    settings: GroupSettings

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `strategy` or `strategy:size`; raises PipelineError if there is none such."""
        name, _, size = text.strip().partition(":")
        try:
            plain = GroupSettings.model_validate({"strategy": name})
            if not size:
                return cls(plain)
            key = SIZE_KEYS.get(plain.strategy)
            if key is None:
                raise PipelineError(f"--policies: {plain.strategy} has no size, not {text!r}")
            return cls(GroupSettings.model_validate({"strategy": name, key: int(size)}))
        except ValidationError as error:
            raise PipelineError(f"--policies: {text!r}: {error.errors()[0]['msg']}") from error
        except ValueError as error:
            raise PipelineError(f"--policies: {text!r}: the size must be a number") from error

    def __str__(self) -> str:
        key = SIZE_KEYS.get(self.settings.strategy)
        size = f":{getattr(self.settings, key)}" if key else ""
        return f"{self.settings.strategy}{size}"

    def strategy(self) -> GroupStrategy:
        """Make the broker's own strategy."""
        groups = self.settings
        return make(
            groups.strategy,
            bucket_count=groups.bucket_count,
            cache_size=groups.cache_size,
            ring_points=groups.ring_points,
        )

    def toml(self, queue: str) -> str:
        """Write the policy for a queue as a file of the broker has it, good for all its hosts."""
        name = queue.rpartition(HOST_MARK)[2].replace("\\", "\\\\").replace('"', '\\"')
        lines = ["[[queue]]", f'id = "{name}"', "[queue.groups]"]
        lines.append(f'strategy = "{self.settings.strategy}"')
        if self.settings.strategy == Shared.name:
            lines.append('header = "JMSXGroupID" # the one your producers send')
        key = SIZE_KEYS.get(self.settings.strategy)
        if key:
            lines.append(f"{key} = {getattr(self.settings, key)}")
        return "\n".join(lines) + "\n"
