"""Host: one virtual host, a world of destinations of its own.

Read `virtual_host` first. `queue_factory` makes and ends queues. `topic`, `feed`, `fan_out` and
`audience` are how topics reach their subscribers. `subscription` is one client's wish to read,
durable or not; `attachment` joins a subscription to its destinations and ends it. `access` checks
what a session is allowed; `counts` knows how much there is of everything, and whose. `temporary`
knows which connection a temporary destination belongs to. Imports `storage`, `queue` and what is
below them.
"""
