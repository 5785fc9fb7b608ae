"""Which certainty labels bases that reason in a known number of steps (E9 a)."""
