"""Inside OpenRLHF's rollout actor: the rollouts of a prompt become one `POST /reward`."""
