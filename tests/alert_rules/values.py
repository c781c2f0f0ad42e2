"""Values that several alert tests use."""

RULE = {"name": "CPU", "resource_type": "instance", "metric": "cpu_pct", "operator": "gt", "threshold": 90}
