# Compiled by mypyc: see setup.py.
"""hash-buckets: groups are hashed into a fixed number of buckets, and a bucket has an owner.

This is ActiveMQ's message group hash bucket map (see its message groups page). Memory is bounded,
whatever the number of groups, and no group's owner is forgotten. The price is that groups in the
same bucket share an owner. The bucket is |hashCode % n| with the hashCode of a Java string, so that
a queue moved from ActiveMQ splits its groups as before. `A` is in bucket 65 of 1024; `Aa` and `BB`
share bucket 64.

Unlike in ActiveMQ, closing one group frees its bucket only if no other group of that bucket has
messages: a close of X must not move Y in the middle of its work.

Memory: an entry per owned bucket, and the names of the groups on the queue now. `took` needs these
names to return the other groups that have just got an owner.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar, Final

from covey.groups.owner_map import OwnerMap
from covey.groups.strategy import NONE, Option, StrategyEntry, Values

HASH_MASK: Final = 0xFFFFFFFF
"""Java computes hash codes in 32 bits."""

HASHES_KEPT: Final = 8192
"""Hash codes remembered in the process, under 2 MB: a live group is asked for again and again."""


class HashBuckets(OwnerMap):
    """Owners by bucket; the keys of the owner map are bucket numbers as text."""

    __slots__ = ("_present", "bucket_count")

    name: ClassVar[str] = "hash-buckets"
    wants_drained: ClassVar[bool] = False
    is_sticky: ClassVar[bool] = True
    moves_in_units: ClassVar[bool] = True

    def __init__(self, bucket_count: int) -> None:
        assert bucket_count >= 1, f"groups need at least one bucket, not {bucket_count}"
        super().__init__()
        self.bucket_count = bucket_count
        self._present: dict[str, set[str]] = {}  # only buckets with groups on the queue

    def owner(self, group: str, skip: frozenset[int] = NONE) -> int:
        """Return the owner of the group's bucket."""
        return super().owner(self._bucket(group), skip)

    def took(self, group: str, consumer: int) -> Sequence[str]:
        """Record the owner of the bucket; return its other groups on the queue."""
        bucket = self._bucket(group)
        self.bind(bucket, consumer)
        return self._neighbours(bucket, group)

    def unit_of(self, group: str) -> str:
        """Return the group's bucket."""
        return self._bucket(group)

    def opened(self, group: str) -> None:
        """Note that the group's bucket has it on the queue."""
        self._present.setdefault(self._bucket(group), set()).add(group)

    def vanished(self, group: str) -> None:
        """Note that the group is off the queue; its bucket keeps the owner."""
        bucket = self._bucket(group)
        names = self._present.get(bucket)
        if names is None:
            return
        names.discard(group)
        if not names:
            del self._present[bucket]

    def closed(self, group: str) -> None:
        """Free the bucket, unless another group of it is on the queue."""
        bucket = self._bucket(group)
        if not self._neighbours(bucket, group):
            self.forget(bucket)

    def describe(self) -> dict[str, int | str]:
        """Return the strategy and its number of buckets."""
        return {"strategy": self.name, "bucket_count": self.bucket_count}

    def _bucket(self, group: str) -> str:
        return str(bucket_of(group, self.bucket_count))

    def _neighbours(self, bucket: str, group: str) -> list[str]:
        return [name for name in self._present.get(bucket, ()) if name != group]


def bucket_of(group: str, bucket_count: int) -> int:
    """Return the group's bucket: the remainder of its Java hash code without the sign."""
    return abs(java_hash(group)) % bucket_count


@lru_cache(HASHES_KEPT)
def java_hash(text: str) -> int:
    """Compute the hash code of a Java string: 31 * h + unit over UTF-16 units, 32 bits, signed."""
    result = 0
    for char in text:
        unit = ord(char)
        if unit > 0xFFFF:  # Java has a pair of surrogates for it
            unit -= 0x10000
            result = (31 * result + 0xD800 + (unit >> 10)) & HASH_MASK
            unit = 0xDC00 + (unit & 0x3FF)
        result = (31 * result + unit) & HASH_MASK
    return result - (HASH_MASK + 1) if result > HASH_MASK >> 1 else result


def make_hash_buckets(values: Values) -> HashBuckets:
    """Build one with so many buckets."""
    return HashBuckets(values["bucket_count"])


ENTRY: Final[StrategyEntry] = StrategyEntry(
    "hash-buckets",
    "like simple, but groups are hashed into buckets, and a bucket has the owner",
    make_hash_buckets,
    options=(
        Option(
            "bucket_count",
            1024,
            1,
            65536,
            "how many buckets share out the groups",
            "--group-buckets",
        ),
    ),
    aliases=(
        "bucket",
        "messageGroupHashBucket",
        "messageGroupHashBucketFactory",
        # ActiveMQ's message groups page spells the element so.
        "messageGroupHashBucked",
        "messageGroupHashBuckedFactory",
    ),
    planned_sizes=(64, 1024),
)
