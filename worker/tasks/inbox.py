"""Jobs that look for what people should know."""

from panel.core.db import session
from panel.services import announcements
from panel.services.inbox import checks
from worker.engine.registry import periodic


@periodic(seconds=300)
def report_traffic() -> None:
    while checks.report_traffic():
        session.commit()
    session.commit()


@periodic(seconds=60)
def send_announcements() -> None:
    """Put announcements that are due into the inboxes of their audience."""
    while announcements.send_batch():
        session.commit()
    session.commit()


@periodic(seconds=3600)
def report_states() -> None:
    """Report certificates that expire, low balances and missing backups."""
    for check in (checks.report_certificates, checks.report_balances, checks.report_missing_backups):
        check()
        session.commit()
