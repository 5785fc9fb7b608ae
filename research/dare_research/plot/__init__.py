"""Figures of a run for a paper or a slide, and `dare-reward plot`."""
