"""AMQP 1.0: proton opens and closes connections, Covey's own code handles each message.

Read `engine` first, then `framing` (which frames go where), `session` and `links/`. `proton_wire`
and `proton_events` use proton without a socket. `outcomes` and `conditions` are tables.
`backpressure` limits what waits for a slow peer or from a blocked one.

Rooms: `codec/` (bytes of types and frames), `messages/` (a message and its sections), `links/`
(what is attached to what), `login/` (SASL).
"""
