"""Estimators whose constants or signs could not be verified: plug-ins of `dare-reward`, found by entry point."""
