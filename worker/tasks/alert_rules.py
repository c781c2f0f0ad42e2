"""Evaluating alert rules, and sending their notifications.

A notification is claimed for a while. If the worker ends meanwhile, another one sends it after that time: delivery is
at least once, and the id of a notification stays the same.
"""

import queue
import ssl
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import structlog
from sqlalchemy import delete, func, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm.exc import StaleDataError

from panel.core import clock, context, mail
from panel.core.db import count_changed, session
from panel.core.messages import get_message, message
from panel.models import Account, AlertEvent, AlertNotification, AlertRule, NotificationChannel
from panel.services import alert_evaluation, alert_messages, notification_channels
from panel.services.webhooks.delivery_queue import RETRY_DELAYS
from worker.engine.registry import periodic
from worker.webhooks.connection import AttemptFailed, ReceiverConnection, create_ssl_context

log = structlog.get_logger()

NOTIFICATION_LEASE = timedelta(minutes=5)
"""How long a run holds the notifications that it claimed."""

MAX_CHANNELS_PER_RUN, MAX_CHANNELS_PER_ACCOUNT, MAX_PER_CHANNEL = 32, 8, 20
"""Channels that a run sends to at the same time, those of one account among them, and notifications for each."""

MAX_RUN_SECONDS = 90
"""Seconds after which a run begins no more attempts. Shorter than the lease by more than an attempt."""

MAX_CONFLICTS = 10
"""Batches of a run that are repeated because rows were deleted meanwhile."""

HISTORY_RETENTION = timedelta(days=90)
DEADLINE_CHECK_SECONDS = 0.5


class Job(NamedTuple):
    """A claimed notification and what its message is made from; `event` and `rule` are empty for a test."""

    notification: AlertNotification
    event: AlertEvent | None
    rule: AlertRule | None
    account: Account
    claimed_until: datetime


class Outcome(NamedTuple):
    job: Job
    error: str | None
    is_attempted: bool = True


@periodic(seconds=60)
def evaluate() -> None:
    evaluate_all()
    send_due()


def evaluate_all() -> None:
    """Evaluate all rules that are enabled. Commits after each batch."""
    now = clock.now()
    last_id: str | None = ""
    conflicts = 0
    while last_id is not None and conflicts < MAX_CONFLICTS:
        try:
            last_id = alert_evaluation.evaluate_batch(now, last_id)
            session.commit()
        except (IntegrityError, StaleDataError):  # a resource or rule was deleted meanwhile
            session.rollback()
            conflicts += 1
            log.info("alert_batch_repeated", after=last_id)


@periodic(seconds=3600)
def purge_history() -> None:
    oldest = clock.now() - HISTORY_RETENTION
    session.execute(delete(AlertEvent).where(AlertEvent.created_at < oldest))
    session.execute(delete(AlertNotification).where(AlertNotification.created_at < oldest))
    session.commit()


@periodic(seconds=15)
def send_due() -> None:
    """Send the notifications that are due. No transaction is open while receivers are waited for."""
    jobs_by_channel = claim()
    session.commit()
    sendable: list[list[Job]] = []
    for jobs in jobs_by_channel:
        channel = jobs[0].notification.channel
        if channel.type == "mail":
            for job in jobs:
                send_mail(job)
                record(Outcome(job, None))
        else:
            sendable.append(jobs)
    if sendable:
        send_all(sendable)


def claim() -> list[list[Job]]:
    """Claim due notifications and return them by channel, oldest first. Disabled channels get tests only, and those of
    suspended accounts nothing."""
    now = clock.now()
    is_due = (AlertNotification.status == "pending", AlertNotification.due_at <= now)
    position = func.row_number().over(partition_by=AlertNotification.channel_id, order_by=AlertNotification.id)
    columns = AlertNotification.id, AlertNotification.channel_id, AlertNotification.event_id
    ranked = select(*columns, position.label("position")).where(*is_due)
    ranks = ranked.subquery()
    query = (
        select(ranks.c.id, NotificationChannel.id.label("channel_id"), NotificationChannel.account_id)
        .join(NotificationChannel, NotificationChannel.id == ranks.c.channel_id)
        .join(Account, Account.id == NotificationChannel.account_id)
        .where(Account.suspended_at.is_(None), ranks.c.position <= MAX_PER_CHANNEL)
        .where(or_(NotificationChannel.enabled, ranks.c.event_id.is_(None)))
        .order_by(ranks.c.position, ranks.c.id)
        .limit(MAX_CHANNELS_PER_RUN * MAX_PER_CHANNEL)
    )
    channels_by_account: dict[str, set[str]] = defaultdict(set)
    chosen: list[str] = []
    for row in session.execute(query):
        channels = channels_by_account[row.account_id]
        is_room = (
            len(channels) < MAX_CHANNELS_PER_ACCOUNT
            and sum(map(len, channels_by_account.values())) < MAX_CHANNELS_PER_RUN
        )
        if row.channel_id in channels or is_room:
            channels.add(row.channel_id)
            chosen.append(row.id)
    lock = select(AlertNotification.id).where(AlertNotification.id.in_(chosen), *is_due)
    ids = session.scalars(lock.with_for_update(skip_locked=True)).all()
    session.execute(
        update(AlertNotification)
        .where(AlertNotification.id.in_(ids))
        .values(due_at=now + NOTIFICATION_LEASE)
        .execution_options(synchronize_session=False)
    )
    return load_jobs(ids)


def load_jobs(ids: Sequence[str]) -> list[list[Job]]:
    query = (
        select(AlertNotification, AlertEvent, AlertRule, Account)
        .join(NotificationChannel, NotificationChannel.id == AlertNotification.channel_id)
        .join(Account, Account.id == NotificationChannel.account_id)
        .outerjoin(AlertEvent, AlertEvent.id == AlertNotification.event_id)
        .outerjoin(AlertRule, AlertRule.id == AlertEvent.rule_id)
        .where(AlertNotification.id.in_(ids))
        .order_by(AlertNotification.id)
        .execution_options(populate_existing=True)
    )
    by_channel: dict[str, list[Job]] = defaultdict(list)
    for row in session.execute(query):
        by_channel[row[0].channel_id].append(Job(*row, claimed_until=row[0].due_at))
    return list(by_channel.values())


def send_mail(job: Job) -> None:
    facts = alert_messages.build_mail_facts(job.event, job.rule)
    mail.send(job.account.email, "alert", **facts)


def send_all(jobs_by_channel: list[list[Job]]) -> None:
    """Send to all these channels at the same time, and record each outcome at once."""
    outcomes: queue.Queue[Outcome | None] = queue.Queue()
    stop_at = time.monotonic() + MAX_RUN_SECONDS
    runs = list(filter(None, (prepare_run(jobs, outcomes, stop_at) for jobs in jobs_by_channel)))
    session.commit()
    if not runs:
        return
    with ThreadPoolExecutor(len(runs), "alerts") as pool:
        for run in runs:
            pool.submit(run.serve)
        waiting = len(runs)
        while waiting:
            try:
                outcome = outcomes.get(timeout=DEADLINE_CHECK_SECONDS)
            except queue.Empty:
                for run in runs:
                    run.connection.enforce_deadline()
                continue
            if outcome is None:
                waiting -= 1
            else:
                record(outcome)


def prepare_run(jobs: list[Job], outcomes: "queue.Queue[Outcome | None]", stop_at: float) -> "ChannelRun | None":
    """Return the run of a channel. If its messages cannot be built, record that as their failure and return None."""
    try:
        return ChannelRun(jobs, outcomes, stop_at)
    except Exception:
        log.exception("alert_message_failed", channel=jobs[0].notification.channel_id)
    for job in jobs:
        record(Outcome(job, message("The message could not be built.")))
    return None


class ChannelRun:
    """Sends the messages of one channel. Everything is read from the rows before its thread begins."""

    def __init__(self, jobs: list[Job], outcomes: "queue.Queue[Outcome | None]", stop_at: float) -> None:
        channel = jobs[0].notification.channel
        self.outcomes, self.stop_at = outcomes, stop_at
        config = channel.config
        self.jobs = jobs
        self.requests = [
            alert_messages.build_request(channel.type, config, job.notification.id, job.event, job.rule) for job in jobs
        ]
        self.connection = ReceiverConnection(
            alert_messages.get_url(channel.type, config),
            build_ssl_context(config),
            method=config.get("method", "POST"),
            connect_timeout=config.get("connect_timeout", 5),
            answer_timeout=config.get("timeout", 20),
        )

    def serve(self) -> None:
        """Send until one fails: the others wait for the next run."""
        is_failed = False
        try:
            for job, (payload, headers) in zip(self.jobs, self.requests, strict=True):
                if is_failed or time.monotonic() > self.stop_at:
                    self.outcomes.put(Outcome(job, None, is_attempted=False))
                    continue
                error = attempt(self.connection, payload, headers)
                is_failed = error is not None
                self.outcomes.put(Outcome(job, error))
        finally:
            self.connection.close()
            self.outcomes.put(None)


def build_ssl_context(config: dict[str, Any]) -> ssl.SSLContext:
    if config.get("verify_ssl", True):
        return create_ssl_context(context.current().config.webhook_ca)
    unverified = ssl.create_default_context()
    unverified.check_hostname = False
    unverified.verify_mode = ssl.CERT_NONE
    return unverified


def attempt(connection: ReceiverConnection, payload: bytes, headers: dict[str, str]) -> str | None:
    """Send once. Return the error, a sentence, or None."""
    try:
        code, _ = connection.post(payload, headers)
    except AttemptFailed as failure:
        return get_message(failure)
    except Exception:
        log.exception("alert_attempt_failed")
        return message("The message could not be sent.")
    if not 200 <= code < 300:
        return message("The receiver answered {code} and not with a status from 200 to 299.", code=code)
    return None


def record(outcome: Outcome) -> None:
    """Write the outcome of one notification, and count it at its channel."""
    now, notification = clock.now(), outcome.job.notification
    claimed = update(AlertNotification).where(
        AlertNotification.id == notification.id,
        AlertNotification.status == "pending",
        AlertNotification.due_at == outcome.job.claimed_until,
    )
    if not outcome.is_attempted:
        session.execute(claimed.values(due_at=now))
        session.commit()
        return
    is_test, attempts = outcome.job.event is None, notification.attempts + 1
    is_retried = outcome.error is not None and not is_test and attempts <= len(RETRY_DELAYS)
    status = "pending" if is_retried else "failed" if outcome.error else "delivered"
    due_at = now + RETRY_DELAYS[attempts - 1] if is_retried else now
    values = {"status": status, "attempts": attempts, "due_at": due_at, "error": outcome.error}
    if not count_changed(claimed.values(**values)):  # another run has claimed it since
        session.rollback()
        return
    count_outcome(notification.channel_id, outcome.error, is_counted=not is_test and not is_retried)
    session.commit()


def count_outcome(channel_id: str, error: str | None, *, is_counted: bool) -> None:
    """Count a failure, or reset the failures; too many in a row disable the channel."""
    query = select(NotificationChannel).where(NotificationChannel.id == channel_id).with_for_update()
    channel = session.scalar(query.execution_options(populate_existing=True))
    if channel is None:
        return
    channel.last_error = error
    if error is None:
        channel.last_sent_at = clock.now()
    if is_counted:
        channel.failure_count = channel.failure_count + 1 if error else 0
        if channel.failure_count >= notification_channels.MAX_CONSECUTIVE_FAILURES and channel.enabled:
            channel.enabled, channel.auto_disabled = False, True
            give_up_waiting(channel_id)


def give_up_waiting(channel_id: str) -> None:
    """End the waiting notifications of a channel that was disabled."""
    waiting = update(AlertNotification).where(
        AlertNotification.channel_id == channel_id, AlertNotification.status == "pending"
    )
    error = message("The channel was disabled after too many failures.")
    session.execute(waiting.values(status="failed", error=error).execution_options(synchronize_session=False))
