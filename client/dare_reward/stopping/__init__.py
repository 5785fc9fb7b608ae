"""Fewer votes for the same reward: when the votes so far settle a group (docs/stopping.md).

rules     rules on the votes alone, for methods that pay the most voted answer
futures   the rule on the rewards themselves, for every other method
waves     the options: how many votes, which rule, waves of which size
settled   groups in, and for each whether it is settled
"""
