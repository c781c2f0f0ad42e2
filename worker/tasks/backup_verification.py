"""Verification of the accounts' repositories."""

import itertools

import structlog

from panel.core import clock
from panel.core.db import session
from panel.core.messages import message
from panel.services import backup_copies, backup_verification
from panel.services.backup_limits import MEBIBYTE
from worker.backups.rate_limit import RateLimit
from worker.backups.verification import verify
from worker.engine.registry import periodic, task_handler
from worker.tasks.backup_repositories import get_repository, open_repository

log = structlog.get_logger()

SAMPLE_RATIO = 0.05
CHUNKS_PER_CHECK = 100


@periodic(seconds=3600)
def verify_due():
    for repository, is_complete in session.execute(backup_verification.select_due()).all():
        backup_verification.enqueue(repository, is_complete=is_complete)
    session.commit()


@task_handler("backup_verify")
def verify_repository(work):
    """Read a sample of the chunks, or all, and record the backups that cannot be restored."""
    row, is_complete = get_repository(work.task.resource_id), work.task.arguments["is_complete"]
    started_at, rate_limit = clock.now(), RateLimit(row.destination.bandwidth_limit * MEBIBYTE)

    chunk_numbers = itertools.count(1)

    def report_chunk(size):
        rate_limit.wait(size)
        if next(chunk_numbers) % CHUNKS_PER_CHECK == 0:
            work.check()

    work.step(message("Reading what is stored"), 5)
    with open_repository(row) as repository:
        result = verify(repository, 1 if is_complete else SAMPLE_RATIO, report_chunk)
    if result.damaged_chunks or result.damaged_points:
        log.error(
            "backups_damaged",
            repository=work.task.resource_id,
            chunks=sorted(result.damaged_chunks),
            backups=sorted(result.damaged_points),
        )
    work.step(
        message(
            "{count} chunks read, {damaged} damaged", count=result.chunks_checked, damaged=len(result.damaged_chunks)
        ),
        95,
    )
    row = get_repository(work.task.resource_id)
    backup_verification.record(row, result.damaged_points, is_complete=is_complete, started_at=started_at)
    backup_copies.record_damaged(row, result.damaged_points)
