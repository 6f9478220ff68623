"""Model: the three nouns that every protocol meets.

A `message` is what a producer sent, an `entry` is its place in one queue, a `consumer` reads one
queue with a credit. Read them in this order. Imports `selector` only.
"""
