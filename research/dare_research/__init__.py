"""Studies of the paper's claims: the simulation of its latent-variable model, and what reports are made from."""
