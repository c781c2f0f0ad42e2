"""Use cases that commit, enqueue a job and wait for its outcome."""
