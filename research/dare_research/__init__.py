"""The evidence: results of studies, the figures that follow from them, and the paper's analyses."""
