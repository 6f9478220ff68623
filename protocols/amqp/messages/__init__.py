"""Messages: an AMQP message as the broker keeps it, and as other protocols see it.

Read `sections` first (one pass over the bytes), then `message`. `head_cache` remembers what
messages repeat. `splice` writes what a delivery changes. `mapping` and `bodies` turn a message into
the neutral form and back. Imports `codec`.
"""
