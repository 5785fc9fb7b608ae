"""`dare-reward evaluate`: pass@1, pass@k and maj@k of a served model, beside the rows of the paper."""
