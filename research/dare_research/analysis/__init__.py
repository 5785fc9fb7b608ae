"""Author's measures of rewards against the truth, and `dare-reward analyse`."""
