"""Compiles the hot modules with mypyc when COVEY_COMPILE=1; pyproject.toml holds everything else.

The modules stay plain typed Python: an uncompiled build behaves the same, only slower. An editable
install is never compiled, for its .so files would land in the source tree and win over edited code.
`scripts/clean` deletes such files.
"""

from __future__ import annotations

import os
import sys

from setuptools import Extension, setup

# What runs once per message or per frame; extend it when a profile says so. Every module here must
# compile, and a plain-Python class may inherit from one of its classes only where that allows it.
# None is of the pipeline: mypyc reads what it imports, and there is no Spark at a first start.
HOT_MODULES = [
    "src/covey/client/cutter.py",
    "src/covey/core/admission.py",
    "src/covey/core/ages.py",
    "src/covey/core/arrivals.py",
    "src/covey/core/board.py",
    "src/covey/core/broker.py",
    "src/covey/core/browsing.py",
    "src/covey/core/clock.py",
    "src/covey/core/commit.py",
    "src/covey/core/consumer.py",
    "src/covey/core/counts.py",
    "src/covey/core/dam.py",
    "src/covey/core/delayed.py",
    "src/covey/core/destination.py",
    "src/covey/core/discipline.py",
    "src/covey/core/dispatch.py",
    "src/covey/core/duplicates.py",
    "src/covey/core/entrance.py",
    "src/covey/core/entry.py",
    "src/covey/core/event_log.py",
    "src/covey/core/events.py",
    "src/covey/core/expiry.py",
    "src/covey/core/fan.py",
    "src/covey/core/feed.py",
    "src/covey/core/glances.py",
    "src/covey/core/index.py",
    "src/covey/core/lane.py",
    "src/covey/core/last_value.py",
    "src/covey/core/ledger.py",
    "src/covey/core/level.py",
    "src/covey/core/line.py",
    "src/covey/core/membership.py",
    "src/covey/core/message.py",
    "src/covey/core/page.py",
    "src/covey/core/paging.py",
    "src/covey/core/parking.py",
    "src/covey/core/path.py",
    "src/covey/core/placement.py",
    "src/covey/core/plain.py",
    "src/covey/core/promises.py",
    "src/covey/core/publishing.py",
    "src/covey/core/queue.py",
    "src/covey/core/quota.py",
    "src/covey/core/returns.py",
    "src/covey/core/rules.py",
    "src/covey/core/selector/closures.py",
    "src/covey/core/selector/values.py",
    "src/covey/core/session.py",
    "src/covey/core/shelf.py",
    "src/covey/core/source.py",
    "src/covey/core/start.py",
    "src/covey/core/stores/changes.py",
    "src/covey/core/stores/journal.py",
    "src/covey/core/stores/reader.py",
    "src/covey/core/timers.py",
    "src/covey/core/topic.py",
    "src/covey/core/transaction.py",
    "src/covey/core/transactions.py",
    "src/covey/core/turns.py",
    "src/covey/core/view.py",
    "src/covey/groups/base.py",
    "src/covey/groups/consistent_hash.py",
    "src/covey/groups/crew.py",
    "src/covey/groups/hash_buckets.py",
    "src/covey/groups/hash_ring.py",
    "src/covey/groups/heads.py",
    "src/covey/groups/key.py",
    "src/covey/groups/lru_map.py",
    "src/covey/groups/lru_strict.py",
    "src/covey/groups/model.py",
    "src/covey/groups/model_parts.py",
    "src/covey/groups/owner_map.py",
    "src/covey/groups/shared.py",
    "src/covey/groups/simple_map.py",
    "src/covey/groups/tally.py",
    "src/covey/protocols/amqp/bodies.py",
    "src/covey/protocols/amqp/channel.py",
    "src/covey/protocols/amqp/channels.py",
    "src/covey/protocols/amqp/checker.py",
    "src/covey/protocols/amqp/codes.py",
    "src/covey/protocols/amqp/consumer.py",
    "src/covey/protocols/amqp/coordinator.py",
    "src/covey/protocols/amqp/decoder.py",
    "src/covey/protocols/amqp/dispositions.py",
    "src/covey/protocols/amqp/drain.py",
    "src/covey/protocols/amqp/encoder.py",
    "src/covey/protocols/amqp/engine.py",
    "src/covey/protocols/amqp/events.py",
    "src/covey/protocols/amqp/fields.py",
    "src/covey/protocols/amqp/heads.py",
    "src/covey/protocols/amqp/ids.py",
    "src/covey/protocols/amqp/incoming.py",
    "src/covey/protocols/amqp/management.py",
    "src/covey/protocols/amqp/mapping.py",
    "src/covey/protocols/amqp/message.py",
    "src/covey/protocols/amqp/outgoing.py",
    "src/covey/protocols/amqp/performatives.py",
    "src/covey/protocols/amqp/pressure.py",
    "src/covey/protocols/amqp/producer.py",
    "src/covey/protocols/amqp/render.py",
    "src/covey/protocols/amqp/scan.py",
    "src/covey/protocols/amqp/sections.py",
    "src/covey/protocols/amqp/selection.py",
    "src/covey/protocols/amqp/splice.py",
    "src/covey/protocols/amqp/states.py",
    "src/covey/protocols/amqp/transfer.py",
    "src/covey/protocols/amqp/unsettled.py",
    "src/covey/protocols/amqp/wishes.py",
    "src/covey/protocols/engine.py",
    "src/covey/protocols/stomp/acks.py",
    "src/covey/protocols/stomp/block.py",
    "src/covey/protocols/stomp/consumer.py",
    "src/covey/protocols/stomp/engine.py",
    "src/covey/protocols/stomp/frame.py",
    "src/covey/protocols/stomp/headers.py",
    "src/covey/protocols/stomp/heads.py",
    "src/covey/protocols/stomp/heartbeat.py",
    "src/covey/protocols/stomp/held.py",
    "src/covey/protocols/stomp/holding.py",
    "src/covey/protocols/stomp/limits.py",
    "src/covey/protocols/stomp/lines.py",
    "src/covey/protocols/stomp/message.py",
    "src/covey/protocols/stomp/parser.py",
    "src/covey/protocols/stomp/plans.py",
    "src/covey/protocols/stomp/producer.py",
    "src/covey/protocols/stomp/receipts.py",
    "src/covey/protocols/stomp/rules.py",
    "src/covey/protocols/stomp/send.py",
]

# Set-up asks for metadata several times with other commands; only these produce a build.
BUILDING_COMMANDS = {"bdist_wheel", "build", "build_ext"}

COMPILER = "mypy[mypyc]>=1.18"


def hot_extensions() -> list[Extension]:
    """Translate the hot modules to C; without `group_name` the shared part is named by a hash.

    Level 2 without symbols: level 3 with them takes a seventh more time and nearly twice the room.
    """
    from mypyc.build import mypycify  # present in the build environment only when compiling

    return mypycify(HOT_MODULES, opt_level="2", debug_level="0", group_name="covey")


compiling = os.environ.get("COVEY_COMPILE") == "1"
building = not BUILDING_COMMANDS.isdisjoint(sys.argv)
setup(
    setup_requires=[COMPILER] if compiling else [],
    ext_modules=hot_extensions() if compiling and building else [],
)
