"""What may be: requests and observations in, events or a reasoned refusal out. Pure."""
