"""The public pages: what spectators see of a run, rendered on the server and kept live by one stream."""
