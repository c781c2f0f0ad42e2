"""Instances: virtual machines and what is done with them, in both dialects."""

from api import kit

user = kit.User("instance", __name__, description="Instances")
admin = kit.Admin("instance", __name__, description="Instances")

from api.instances import actions, admin_rows, rows, suspension  # noqa: E402, F401  (they add their routes to the two above)
