"""Looking after the traffic allowances: the turn of the month, and who has used up what was allowed."""

from panel.core.db import session
from panel.services.instances import traffic


def enforce_quotas():
    """May run twice at once, late or after days: each card remembers the month that it counts in."""
    while traffic.reset_month():
        session.commit()
    session.commit()
    traffic.enforce_quota()
    session.commit()
