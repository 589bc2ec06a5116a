"""What an entrant holds in its hand: the `arena` command, from a shell in a corner to the arena's socket. Standard library only."""
