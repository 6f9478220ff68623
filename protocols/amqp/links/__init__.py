"""Links: what a peer attaches, from the attach frame to the core.

`attach` is how a link begins and ends. `terminus` is what its source and target ask for. `address`
and `nodes` say which queue or topic an address means. A peer that sends: `sender_link`, `publish`.
A peer that receives: `receiver_link`, `subscribe`, `consumer`. There are two special targets:
`transactions` (the coordinator) and `management` (`$management`).
"""
