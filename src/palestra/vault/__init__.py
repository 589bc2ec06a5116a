"""Kept artifacts: sealed folders in homes go in, copies that were verified and inspected stay."""
