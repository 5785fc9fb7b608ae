"""pass@1, pass@k and maj@k of a served model on benchmarks from local files, beside the paper's rows."""
