"""What was agreed beforehand: units, durations, the competition's rules, prices, manifests. Pure."""
