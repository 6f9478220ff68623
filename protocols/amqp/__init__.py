"""AMQP 1.0: proton opens and closes connections, our own code handles each message.

Read `engine` first, then `framing` (which frames go where), `session` and `links/`. `proton_wire`
and `proton_events` join proton without a socket. `outcomes` and `conditions` are tables.
`backpressure` is what a slow or a blocked peer costs.

Rooms: `codec/` (bytes of types and frames), `messages/` (a message and its sections), `links/`
(what is attached to what), `login/` (SASL).
"""
