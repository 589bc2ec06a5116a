"""`python -m palestra.client` is `arena`."""

from palestra.client.arena import entry

entry()
