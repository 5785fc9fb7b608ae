"""Groups of rollouts that come one by one: unmodified OpenRLHF, with nothing of ours installed."""
