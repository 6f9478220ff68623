"""Simulation: how a group policy would have done with recorded traffic. `covey-pipeline plan` asks.

Read `load` first (the arrivals, and what is counted), then `queue` (the model that plays them
under a strategy), `consumers` (who works, and who is next) and `parts`. It uses the strategies
themselves, and nothing of the core.
"""
