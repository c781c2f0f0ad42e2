"""Running tasks: claiming, running, rolling back, requeueing, scheduling."""
