"""Settings of all tests."""

from hypothesis import settings

# A deadline per example measures the machine's other work; what must be quick has a test of its own.
settings.register_profile("default", deadline=None)
settings.load_profile("default")
