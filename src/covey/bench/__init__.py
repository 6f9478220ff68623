"""The load generator: for `covey bench`, and for `scripts/bench`, which has peers beside it.

wire/         what the generator speaks: a connection of the load, and its bytes
flows.py      what it can do to a broker: a table
load.py       the generator: one process of its own, never the limit; paced.py: at a given rate
generator.py  one run of it
result.py     figures with their noise

It needs only the standard library, and nothing of the broker: what is measured must not depend on
what measures it.
"""
