"""The metered way to a model: entrants' calls in, upstreams' answers out, money held before and settled after."""
