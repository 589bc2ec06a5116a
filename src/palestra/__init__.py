"""Palestra runs AI R&D competitions: agents with the same base model, budgets and clock, all on one record."""

__version__ = "0.1.0"
