"""The trainer side: entropy capture, agent, launcher."""
