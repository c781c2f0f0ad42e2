"""Handing mass mails to the mail queue."""

from panel.core.db import session
from panel.services import mass_mails
from worker.engine.registry import periodic


@periodic(seconds=60)
def queue_batches() -> None:
    while mass_mails.queue_batch():
        session.commit()
    session.commit()
