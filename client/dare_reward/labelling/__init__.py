"""A person labels prompts: in a page or on a terminal, by the same rules."""
