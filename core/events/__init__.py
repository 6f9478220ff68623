"""Events: what happened in the core, told to whoever listens. The core itself writes no log.

`event` has the kinds and the sink. `audit` is what an operator must hear at once. `event_log`
keeps everything for the data pipeline. Imports `naming`, `clock` and `errors`.
"""
