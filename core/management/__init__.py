"""Management: what operators see of the broker, and what they do to it.

Read `admin` first: `$management`, HTTP and the commands all come through it. `inspection` is what
it shows. `declaration` says which rights a declared queue needs. `catalogue` finds things by type
and name. `describe` says what is shown of each. `waiting` says why a group waits. `reload` puts
other settings in force. `settings_check` finds what only the core can find wrong with them. Imports
everything else of the core; nothing of the core imports it.
"""
