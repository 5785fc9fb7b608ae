"""Several replicas of the service behind one address; groups of single rollouts form at their shards."""
