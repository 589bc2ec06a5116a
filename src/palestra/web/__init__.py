"""Doors: the entrant's and the organiser's API over unix sockets, and how they are served."""
