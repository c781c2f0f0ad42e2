"""Micro VMs, their images and the nodes' profiles, in both dialects."""

from api import kit

user = kit.User("microvm", __name__, description="Micro VMs")
admin = kit.Admin("microvm", __name__, description="Micro VMs")

from api.microvms import (  # noqa: E402  (they add their routes to the two above)
    actions,  # noqa: F401
    admin_microvms,  # noqa: F401
    connectors,  # noqa: F401
    customer,  # noqa: F401
    images,  # noqa: F401
    pools,  # noqa: F401
    profiles,  # noqa: F401
    reports,  # noqa: F401
    settings,  # noqa: F401
    snapshots,  # noqa: F401
)
