"""Subcommands of `dare-reward`: doctor, data."""

from .data import register as register_data
from .doctor import register as register_doctor

__all__ = ["register_data", "register_doctor"]
