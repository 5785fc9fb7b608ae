"""The training study: small language models made from scratch, then trained without labels through the service."""
