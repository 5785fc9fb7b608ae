"""How often the preflight is right."""
