"""Use cases that commit, notify a worker and wait for its answer."""
