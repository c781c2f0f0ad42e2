"""Enforcing traffic quotas, and resetting the counters when a month begins."""

from panel.core.db import session
from panel.services.instances import traffic
from worker.engine.registry import periodic


@periodic(seconds=60)
def enforce_quotas() -> None:
    """Reset counters of past months and enforce the quotas.

    Harmless when it runs twice at once or days late: each interface records the month that it counts in.
    """
    while traffic.reset_month():
        session.commit()
    session.commit()
    traffic.enforce_quota()
    session.commit()
