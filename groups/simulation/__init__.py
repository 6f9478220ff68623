"""Simulation: how a group policy would have done with recorded traffic, for `covey-pipeline plan`.

Read `load` first: the arrivals, and the figures that are counted. Then `queue`, which plays the
arrivals with a strategy. `consumers` knows who works and what each may take next. `parts` has the
lists, lanes and workers of both. The strategies are the broker's own. Nothing of the core is used.
"""
