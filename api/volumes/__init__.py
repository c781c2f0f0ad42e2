"""Volumes, their plans, snapshots and backups, in both dialects."""

from api import kit

user = kit.User("volume", __name__, description="Volumes")
admin = kit.Admin("volume", __name__, description="Volumes")

from api.volumes import admin_volumes, backups, customer, plans, snapshots  # noqa: E402, F401  (they add their routes to the two above)
