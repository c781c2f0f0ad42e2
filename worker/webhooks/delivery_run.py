"""One turn of a subscription: what is due is sent, one after another, over one connection."""

import time
from functools import partial

from panel.core import clock
from panel.core.db import new_id, session
from panel.services.webhooks import delivery_queue, signing
from worker.webhooks.connection import AttemptFailed, ReceiverConnection

MAX_RUN_TIME_SECONDS = 10.0
"""Seconds after which a turn ends, so that others have theirs."""

OUTCOME_WRITE_INTERVAL_SECONDS = 0.5
"""Seconds between two writings. After each it is looked whether the subscription is still there and still ours."""

MAX_DELIVERIES_FAST, MAX_DELIVERIES_SLOW = 200, 20
"""Deliveries that are read at once: few when the first may be the last."""

READ_ON_SECONDS = 1.0
"""A turn that is younger than this reads the next ones, which spares a claim and a TLS handshake."""

STALLED_AFTER_SECONDS = 0.4
"""An attempt that takes longer waits for its receiver. Others get their turn meanwhile."""

STORED_ANSWER_BYTES = 2048
"""Bytes of an answer that are kept."""


class DeliveryRun:
    def __init__(self, subscription, holder, context, is_fast=False):
        """`subscription` is a row that `sending.claim` returned."""
        self.subscription_id, self.account_id, self.host = subscription
        self.holder, self.quick = holder, is_fast
        self.line = ReceiverConnection("", context)
        self.held, self.outcomes, self.written = None, [], 0.0

    @property
    def is_stalled(self):
        """Return whether the receiver keeps this run waiting."""
        return time.monotonic() > self.line.began_at + STALLED_AFTER_SECONDS

    def serve(self, stopping=lambda: False):
        """Ends with the first attempt that fails: what comes after it may wait for its turn. A receiver that took
        nothing at all has a rest until then."""
        began, reached = time.monotonic(), True
        for number, (delivery, event) in enumerate(self.waiting(began + READ_ON_SECONDS)):
            if stopping() or time.monotonic() - began > MAX_RUN_TIME_SECONDS or not self.renew_lease():
                break
            self.outcomes.append(attempt_delivery(self.line, self.held, delivery, event))
            if not self.outcomes[-1].arrived:
                reached = number > 0
                break
        self.line.close()
        self.write(
            partial(delivery_queue.release if reached else delivery_queue.back_off, self.subscription_id, self.holder)
        )

    def waiting(self, until):
        """Yield the deliveries that are due, each with its event."""
        size = MAX_DELIVERIES_FAST if self.quick else MAX_DELIVERIES_SLOW
        while batch := delivery_queue.load_batch(self.subscription_id, size):
            session.commit()
            yield from batch
            if len(batch) < size or time.monotonic() > until:
                break
            self.write_and_look()

    def renew_lease(self):
        if time.monotonic() - self.written > OUTCOME_WRITE_INTERVAL_SECONDS:
            self.write_and_look()
        return self.held is not None

    def write_and_look(self):
        self.write()
        self.held = delivery_queue.load_leased(self.subscription_id, self.holder)
        session.commit()
        if self.held and self.held.url != self.line.url:
            self.line.close()
            self.line.url = self.held.url

    def write(self, further=lambda: None):
        if self.outcomes:
            delivery_queue.record_outcomes(self.subscription_id, self.outcomes)
        further()
        session.commit()
        self.outcomes, self.written = [], time.monotonic()


def attempt_delivery(line, subscription, delivery, event):
    """Sends once. What the receiver does is part of the outcome and raises nothing."""
    attempt_id, at, began = new_id(), clock.now(), time.monotonic()
    payload = signing.make_body(event)
    headers = signing.make_headers(
        event, payload, attempt_id=attempt_id, subscription_id=subscription.id, secret=subscription.secret
    )
    code = error = body = None
    try:
        code, answer = line.post(payload, headers)
        body = answer[:STORED_ANSWER_BYTES].decode("utf-8", "replace").replace("\0", "\ufffd")
        if not 200 <= code < 300:
            error = f"The receiver answered {code} and not with a status from 200 to 299."
    except AttemptFailed as failed:
        error = str(failed)
    duration = round((time.monotonic() - began) * 1000)
    return delivery_queue.AttemptOutcome(delivery, attempt_id, at, duration, code, error, body)
