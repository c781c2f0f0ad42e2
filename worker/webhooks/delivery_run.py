"""One run of a leased subscription: send its due deliveries, one after another, over one connection."""

import ssl
import time
from collections.abc import Callable, Iterator
from functools import partial

from sqlalchemy import Row

from panel.core import clock
from panel.core.db import generate_id, session
from panel.core.messages import get_message, message
from panel.models import Event
from panel.services.webhooks import delivery_queue, signing
from worker.webhooks.connection import AttemptFailed, ReceiverConnection

MAX_RUN_TIME_SECONDS = 10.0
"""Seconds after which a run ends, so that other subscriptions are served."""

OUTCOME_WRITE_INTERVAL_SECONDS = 0.5
"""Seconds between two writes of outcomes. Each is followed by a check that the lease still holds."""

MAX_DELIVERIES_FAST, MAX_DELIVERIES_SLOW = 200, 20
"""Deliveries that are read at once. Few for slow receivers, because the first attempt may be the last."""

READ_ON_SECONDS = 1.0
"""Age up to which a run reads the next batch itself, which saves a claim and a TLS handshake."""

STALLED_AFTER_SECONDS = 0.4
"""Seconds after which an attempt counts as stalled and its thread as one for slow receivers."""

STORED_ANSWER_BYTES = 2048
"""Bytes of an answer that are stored."""


class DeliveryRun:
    def __init__(
        self, subscription: Row[str, str, str], holder: str, ssl_context: ssl.SSLContext, is_fast: bool = False
    ) -> None:
        """`subscription` is a row that `delivery_queue.claim_subscriptions` returned."""
        self.subscription_id, self.account_id, self.host = subscription
        self.holder, self.is_fast = holder, is_fast
        self.connection = ReceiverConnection("", ssl_context)
        self.subscription: Row[str, str, str] | None = None
        self.outcomes: list[delivery_queue.AttemptOutcome] = []
        self.last_written_at = 0.0

    @property
    def is_stalled(self) -> bool:
        """Return whether the receiver keeps this run waiting."""
        return time.monotonic() > self.connection.began_at + STALLED_AFTER_SECONDS

    def serve(self, stopping: Callable[[], bool] = lambda: False) -> None:
        """Send until nothing is due, the time is over or an attempt fails.

        If the first attempt fails, the subscription is not served again before a back-off.
        """
        started_at, is_receiving = time.monotonic(), True
        for position, (delivery, event) in enumerate(self.iter_due(started_at + READ_ON_SECONDS)):
            if stopping() or time.monotonic() - started_at > MAX_RUN_TIME_SECONDS:
                break
            if (subscription := self.renew_lease()) is None:
                break
            self.outcomes.append(attempt_delivery(self.connection, subscription, delivery, event))
            if not self.outcomes[-1].is_delivered:
                is_receiving = position > 0
                break
        self.connection.close()
        self.write(
            partial(
                delivery_queue.release if is_receiving else delivery_queue.back_off, self.subscription_id, self.holder
            )
        )

    def iter_due(self, until: float) -> Iterator[tuple[Row, Row | Event]]:
        """Yield the deliveries that are due, each with its event."""
        size = MAX_DELIVERIES_FAST if self.is_fast else MAX_DELIVERIES_SLOW
        while batch := delivery_queue.load_batch(self.subscription_id, size):
            session.commit()
            yield from batch
            if len(batch) < size or time.monotonic() > until:
                break
            self.write_and_reload()

    def renew_lease(self) -> Row[str, str, str] | None:
        if time.monotonic() - self.last_written_at > OUTCOME_WRITE_INTERVAL_SECONDS:
            self.write_and_reload()
        return self.subscription

    def write_and_reload(self) -> None:
        self.write()
        self.subscription = delivery_queue.load_leased(self.subscription_id, self.holder)
        session.commit()
        if self.subscription and self.subscription.url != self.connection.url:
            self.connection.close()
            self.connection.url = self.subscription.url

    def write(self, end_lease: Callable[[], object] = lambda: None) -> None:
        if self.outcomes:
            delivery_queue.record_outcomes(self.subscription_id, self.outcomes)
        end_lease()
        session.commit()
        self.outcomes, self.last_written_at = [], time.monotonic()


def attempt_delivery(
    connection: ReceiverConnection, subscription: Row[str, str, str], delivery: Row, event: Row | Event
) -> delivery_queue.AttemptOutcome:
    """Send the delivery once and return the outcome. Raises nothing for what the receiver does."""
    attempt_id, started_at, start = generate_id(), clock.now(), time.monotonic()
    payload = signing.make_body(event)
    headers = signing.make_headers(
        event, payload, attempt_id=attempt_id, subscription_id=subscription.id, secret=subscription.secret
    )
    error: str | None = None
    code = body = None
    try:
        code, answer = connection.post(payload, headers)
        body = answer[:STORED_ANSWER_BYTES].decode("utf-8", "replace").replace("\0", "\ufffd")
        if not 200 <= code < 300:
            error = message("The receiver answered {code} and not with a status from 200 to 299.", code=code)
    except AttemptFailed as failure:
        error = get_message(failure)
    duration = round((time.monotonic() - start) * 1000)
    return delivery_queue.AttemptOutcome(delivery, attempt_id, started_at, duration, code, error, body)
