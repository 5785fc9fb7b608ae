"""The training study's page, rendered from its raw results."""
