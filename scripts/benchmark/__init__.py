"""The benchmark: the same load, by the same generator, on Covey and on its peers.

link.py       one connection of the load, whatever it speaks
stomp.py      in STOMP; wire.py: its bytes, and whether all of it came back in order
amqp.py       in AMQP 1.0; amqp_wire.py: its bytes
load.py       the generator: one process of its own, never the limit
sink.py       what the generator is measured against: a broker that does nothing
workloads.py  the table of workloads
options.py    the command line; no more than Python is needed to print its help
runner.py     one workload on everybody, turn by turn
process.py    brokers as processes: start, stop, memory, processor time
contender.py  Covey, and what a run must know of any broker
peers.py      how each peer is started, where it is installed
dispatch.py   the core alone: cost of a step against the backlog
balance.py    the heaviest consumer of each strategy
pipeline.py   the jobs of the data pipeline, and the event log's cost
memory.py     bytes for an idle connection and for a queued message
result.py     figures with their noise
report.py     the page with the ratios; plot.py: its picture
"""
