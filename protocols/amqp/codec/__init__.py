"""Codec: AMQP 1.0's types and frames as bytes.

`types` has the type codes. `checker` checks a peer's bytes before `decoder` makes values of them.
`encoder` writes. `performatives` has the frames that proton does not handle. `transfer` reads the
frame that carries messages. Nothing here knows the broker.
"""
