"""The estimators: one module per family, pure functions, arrays in, arrays out."""
