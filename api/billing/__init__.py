"""The billing systems' API: users, instances, credit, usage, sign-in links."""

from api.billing import catalog, instances, users

billing = (users.connect, users.billing, instances.billing, catalog.billing)
