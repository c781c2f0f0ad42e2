"""The schedule of backup policies."""

import structlog

from panel.core.db import session
from panel.services.backup_policies import runs
from worker.engine.registry import periodic

log = structlog.get_logger()


@periodic(seconds=30)
def run_due():
    """Request the backups of the policies and jobs that are due, of a limited number of instances at a time."""
    runs.follow_time_zones()
    session.commit()
    remaining = runs.MAX_INSTANCES_PER_TURN
    for policy in session.scalars(runs.select_due()).all():
        if remaining > 0:
            remaining -= runs.run(policy, remaining)
            log.info("backup_policy_run", policy=policy.id, next_run_at=policy.next_run_at.isoformat())
    session.commit()
