"""Whether a client has its reply: byte for byte, a rollout of plain OpenRLHF that comes twice is a retry or a twin.

With the plugin it is not used, but for noticing that a client has gone: there each rollout has an index.
"""
