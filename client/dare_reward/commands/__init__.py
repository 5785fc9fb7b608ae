"""The base layer's subcommands."""
