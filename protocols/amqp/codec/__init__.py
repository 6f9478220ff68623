"""Codec: AMQP 1.0's types and frames as bytes.

`types` has the codes. `checker` walks over what a stranger sent, before `decoder` makes values of
it. `encoder` writes. `performatives` are the frames that we read and write ourselves. `transfer` is
the one that carries messages. Nothing here knows the broker.
"""
