"""What happened: one module a noun, every kind of event a frozen struct in the past tense. Pure."""
