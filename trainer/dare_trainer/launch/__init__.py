"""`dare-reward doctor` and `dare-reward data`: what a run needs before it starts."""
