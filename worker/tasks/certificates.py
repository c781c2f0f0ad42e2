"""Tasks that order certificates.

The authority's URLs and the new key are stored in the row before the next step, so another worker can continue an
order.
"""

import time
from contextlib import suppress
from datetime import datetime, timedelta

from acme import messages

from panel.core.db import session
from panel.core.errors import Conflict
from panel.core.messages import message
from panel.models import Certificate
from panel.services.certificates import orders
from worker.engine.registry import periodic, task_handler
from worker.engine.runner import Cancelled
from worker.tasks import acme

ACME_POLL_INTERVAL_SECONDS = 1.0
"""Seconds between two polls of the authority."""

ACME_ORDER_TIMEOUT_SECONDS = 300.0
"""Seconds that the authority may take to check the domains, and again to sign."""

MAX_RENEWALS_PER_RUN = 20
"""Renewals that one run starts, because authorities limit the number of orders."""

ACME_TIMEOUT_MESSAGE = message("The certificate authority did not finish in time. Try again later.")


def on_order_failed(row, error):
    """Record the failure in the certificate, if this order is its current one."""
    if certificate := orders.lock_certificate(row):
        orders.record_failure(certificate, error)


@task_handler(orders.ORDER_TASK_KIND, on_failure=on_order_failed)
def order(work):
    work.step(message("Contacting the certificate authority"), 10)
    with acme.translate_errors():
        client = acme.connect_client()
        acme_order, request = start_order(work, client)
        work.step(message("Proving control of the domains"), 30)
        prove_domains(work, client, acme_order["authorizations"])
        work.step(message("Waiting for the certificate"), 80)
        issued = finalize(work, client, acme_order, request)
    orders.record_issued(lock_certificate(work), issued)


def lock_certificate(work) -> Certificate:
    """Lock and return the certificate. Raise Cancelled when it is deleted or has a newer order."""
    row = orders.lock_certificate(work.task)
    if row is None:
        raise Cancelled
    return row


def start_order(work, client):
    """Return the order and the signing request. Both are stored in the row by then."""
    row = lock_certificate(work)
    if row.order is None:
        key, domains = acme.generate_key(), row.domains
        session.commit()
        new_order = acme.create_order(client, acme.build_csr(domains, key))
        row = lock_certificate(work)
        row.order, row.order_key = new_order, key
    result = row.order, acme.build_csr(row.domains, row.order_key)
    session.commit()
    return result


def prove_domains(work, client, urls):
    """Answer the challenges and wait until every domain is validated. Raise `acme.Refused` when one is rejected."""
    for url in urls:
        proof = acme.fetch_authorization(client, url)
        if proof.status == messages.STATUS_PENDING:
            challenge, token, answer = acme.get_http_challenge(client, proof)
            orders.add_challenge(lock_certificate(work), token, answer)
            session.commit()
            acme.answer_challenge(client, challenge)
    until = time.monotonic() + ACME_ORDER_TIMEOUT_SECONDS
    while urls := [url for url in urls if is_pending(client, url)]:
        if time.monotonic() > until:
            raise acme.Refused(ACME_TIMEOUT_MESSAGE)
        work.check()
        time.sleep(ACME_POLL_INTERVAL_SECONDS)


def is_pending(client, url):
    """Return whether the authority is still checking the domain. Raise `acme.Refused` when it rejects it."""
    proof = acme.fetch_authorization(client, url)
    if reason := acme.challenge_error(proof):
        raise acme.Refused(reason)
    return proof.status == messages.STATUS_PENDING


def finalize(work, client, acme_order, request):
    until = time.monotonic() + ACME_ORDER_TIMEOUT_SECONDS
    while time.monotonic() < until:
        # The library expects a naive local time.
        issued = acme.wait_for_certificate(client, acme_order, request, datetime.now() + timedelta(seconds=5))
        if issued:
            return issued
        work.check()
    raise acme.Refused(ACME_TIMEOUT_MESSAGE)


@periodic(seconds=600)
def renew_due():
    """Start due renewals. Called by the scheduler."""
    for row in session.scalars(orders.select_due().limit(MAX_RENEWALS_PER_RUN)).all():
        with suppress(Conflict):  # an order was started at this moment
            orders.start_order(row)
    session.commit()
