"""OpenRLHF's plain posts: single rollouts become groups, in the memory of one process."""
