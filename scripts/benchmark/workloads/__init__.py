"""What is measured: `workloads` is the table of flows, and each other workload has its module.

`dispatch` measures the core alone, `balance` the load of each strategy's heaviest consumer,
`memory` the bytes of a connection and of a message, `backlog` a million messages that survive a
kill, `turns` the longest wait of a client while another asks for something big, `pipeline`
(with `rows`) the jobs of the data pipeline and the event log's cost.
"""
