"""What a supervisor and an operator do with the running process."""
