"""What an expression is worth: a key that is equal for expressions of equal value.

A text goes through `tokens`, `parse` and `tree` to `fingerprint`, which makes the key. `points` says where
variables are evaluated. Nothing here knows lists, units or words: forms/ does.
"""
