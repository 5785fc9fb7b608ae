"""A run log scored again by another method, and `dare-reward replay`."""
