"""A Kubernetes cluster for events."""


class FakeCluster:
    """The attributes of a Kubernetes cluster that an event needs."""

    def __init__(self, account, id="11111111-1111-4111-8111-111111111111", name="Prod"):
        self.account_id, self.id, self.name, self.slug = account.id, id, name, name.lower()
