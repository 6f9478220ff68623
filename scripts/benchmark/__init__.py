"""The benchmark: the same load, by the same generator (`covey.bench`), on Covey and on its peers.

workloads/    what is measured: the table of flows, and a module for each other workload
sink.py       a broker that does nothing: what the generator itself can do
options.py    the command line; needs only Python to print its help
runner.py     one workload on all contenders, in turn
process.py    brokers as processes: start, stop, memory, processor time
contender.py  Covey, and what a run must know of any broker
peers.py      how each peer is started, where it is installed
goals.py      what the figures are to reach
report.py     the page with the ratios; plot.py: its picture
"""
