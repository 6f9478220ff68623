"""Links: what a peer attaches, from the attach frame to the core.

`attach` is how a link begins and ends, `terminus` what its source and target ask for, `address`
and `nodes` which queue or topic an address means. A peer that sends: `sender_link`, `publish`. A
peer that receives: `receiver_link`, `subscribe`, `consumer`. Two special targets: `transactions`
(the coordinator) and `management` (`$management`).
"""
