"""Files that a stack loads by their path."""
