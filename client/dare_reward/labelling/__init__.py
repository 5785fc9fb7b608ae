"""A person labels prompts on a page."""
