"""Adapters that call the reward service from RL stacks. Each imports its stack only when it is used."""
