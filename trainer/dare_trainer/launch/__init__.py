"""`dare-reward train`, `doctor` and `data`: from a recipe to a running OpenRLHF."""
