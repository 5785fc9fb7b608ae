"""The real model: what its sampled rollouts say of certainties and labels."""
