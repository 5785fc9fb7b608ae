"""The simulation of the paper's latent-variable model."""
