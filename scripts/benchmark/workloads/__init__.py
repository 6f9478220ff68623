"""What is measured: `workloads` is the table of flows, and each other workload has its module.

`dispatch` measures the core alone, `balance` the heaviest consumer of each strategy, `memory` the
bytes of a connection and of a message, `backlog` a million messages that outlive a kill, `pipeline`
(with `rows`) the jobs of the data pipeline and the event log's cost.
"""
