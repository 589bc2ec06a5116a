"""The record turned into figures and pages. Pure: what it needs is handed in."""
