"""Host: one virtual host, a world of destinations of its own.

Read `virtual_host` first. `queue_factory` makes and ends queues; `topic`, `feed`, `fan_out` and
`audience` are how topics reach their subscribers; `subscription` is one client's wish to read,
durable or not; `attachment` is how it comes to its destinations and leaves them; `access` says what
a session must be allowed, `temporary` whose a temporary destination is. Imports `storage`, `queue`
and what is below them.
"""
