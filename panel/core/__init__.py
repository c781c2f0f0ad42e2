"""Infrastructure without a web framework's help: configuration, database, errors, jobs, events, mail, logs."""
