"""How safe the calibration of `calibrated_vote` is, in simulation."""
