"""Instances: virtual machines and what is done with them, in both dialects."""

from api import kit

user = kit.User("instance", __name__, description="Instances")
admin = kit.Admin("instance", __name__, description="Instances")

from api.instances import (  # noqa: E402  (they add their routes to the two above)
    actions,  # noqa: F401
    admin_rows,  # noqa: F401
    consoles,  # noqa: F401
    rows,  # noqa: F401
    suspension,  # noqa: F401
)
