"""Measures on labelled rollouts and on runs. NumPy alone, pure functions; truth enters here and in no estimator."""
