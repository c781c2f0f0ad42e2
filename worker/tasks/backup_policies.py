"""The schedule of backup policies."""

import structlog

from panel.core.db import session
from panel.services.backup_policies import runs
from worker.engine.registry import periodic

log = structlog.get_logger()


@periodic(seconds=30)
def run_due():
    """Request the backups of the policies that are due."""
    runs.follow_time_zones()
    session.commit()
    for policy in session.scalars(runs.select_due()).all():
        runs.run(policy)
        log.info("backup_policy_run", policy=policy.id, next_run_at=policy.next_run_at.isoformat())
    session.commit()
