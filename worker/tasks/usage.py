"""Metering and posting of charges. If a worker is lost, the next run continues."""

from panel.core.db import session
from panel.services import usage
from worker.engine.registry import periodic


@periodic(seconds=300)
def meter_and_post():
    """Meter every complete hour, then post the charges to the ledgers, in batches."""
    for step in (usage.meter_hours, usage.post_charges):
        while step():
            session.commit()
        session.commit()
