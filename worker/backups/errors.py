"""Errors of a backup repository. Their texts are for operators."""


class StoreError(Exception):
    """The repository cannot do this."""

    is_unanswered = False
    """Whether a request was sent whose answer did not arrive. The target may still carry it out."""


class ObjectNotFound(StoreError):
    """The target has no object of that name."""


class Damaged(StoreError):
    """What the target returned is not what was stored, or it is missing."""


class LeaseLost(StoreError):
    """The point took too long between two signs of life: its chunks may have been deleted."""


class TargetFailed(StoreError):
    """The target is unreachable, full or broken."""
