"""Login: SASL before an AMQP connection. `sasl` is the exchange, `mechanisms` the ways in."""
