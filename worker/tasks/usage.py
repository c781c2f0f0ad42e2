"""Metering and posting of charges. If a worker is lost, the next run continues."""

from panel.core.db import session
from panel.services import managed_backups, usage
from worker.engine.registry import periodic


@periodic(seconds=300)
def meter_and_post():
    """Follow managed backups, meter every complete hour, then post the charges to the ledgers, in batches.
    Metering of backups that ended for good leaves no row."""
    for step in (managed_backups.update_metering, usage.meter_hours, usage.post_charges):
        while step():
            session.commit()
        session.commit()
    managed_backups.delete_unused()
    session.commit()
