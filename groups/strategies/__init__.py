"""The strategies: one file each, with the strategy's entry in the registry at its end.

A strategy imports `covey.groups.strategy` and `covey.groups.owner_map`, never another strategy.
`covey.groups.registry` has one line for each of them.
"""
