"""`covey-config`: queues declared and listed in qpid-config's own grammar."""
