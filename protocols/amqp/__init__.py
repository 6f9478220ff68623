"""AMQP 1.0: proton for connections and sessions, our own code for what happens once a message.

Read `engine` first, then `framing` (which frames go where), `session` and `links/`.
`proton_wire` and `proton_events` join proton without a socket; `outcomes` and `conditions` are
tables; `backpressure` is what a slow or blocked peer costs. Rooms: `codec/` (bytes of types and
frames), `messages/` (a message and its sections), `links/` (what is attached to what), `login/`
(SASL).
"""
