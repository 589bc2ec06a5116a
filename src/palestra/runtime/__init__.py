"""Where it meets: the desk, the reconciler, supervision and recovery of a run."""
