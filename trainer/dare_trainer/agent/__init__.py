"""The agent: what runs in each of OpenRLHF's rollout actors."""
