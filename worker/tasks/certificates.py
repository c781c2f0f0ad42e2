"""Ordering certificates. A worker that takes an order over goes on where the other one was: the authority's addresses
and the new key are in the row before anything else happens."""

import time
from contextlib import suppress
from datetime import datetime, timedelta

from acme import messages

from panel.core.db import session
from panel.core.errors import Conflict
from panel.models import Certificate
from panel.services.certificates import orders
from worker.engine.registry import task
from worker.engine.runner import Cancelled
from worker.tasks import acme

PAUSE = 1.0
"""Seconds between two looks."""

LONGEST = 300.0
"""Seconds that the authority may take to check the domains, and again to sign."""

AT_ONCE = 20
"""Renewals that one look begins: authorities count orders."""

SILENT = "The certificate authority did not finish in time. Try again later."


def gave_up(row, error):
    """Tells the certificate, if the order is the one that counts."""
    if certificate := orders.held_by(row):
        orders.failed(certificate, error)


@task(orders.KIND, ended_badly=gave_up)
def order(work):
    work.step("Asking the certificate authority", 10)
    with acme.told():
        client = acme.signed_in()
        under_way, request = begun(work, client)
        work.step("Showing the authority that the domains lead here", 30)
        prove(work, client, under_way["authorizations"])
        work.step("Waiting for the certificate", 80)
        issued = signed(work, client, under_way, request)
    orders.arrived(mine(work), issued)


def mine(work) -> Certificate:
    """The row, locked. One that is gone, or that another order counts for, ends this one."""
    row = orders.held_by(work.task)
    if row is None:
        raise Cancelled
    return row


def begun(work, client):
    """The order under way with what is to be signed. Both are in the row when this returns."""
    row = mine(work)
    if row.order is None:
        key, domains = acme.new_key(), row.domains
        session.commit()
        made = acme.order(client, acme.request_for(domains, key))
        row = mine(work)
        row.order, row.order_key = made, key
    found = row.order, acme.request_for(row.domains, row.order_key)
    session.commit()
    return found


def prove(work, client, urls):
    """Returns when the authority believes that every domain leads here. Raises what it says against one."""
    for url in urls:
        proof = acme.authorization(client, url)
        if proof.status == messages.STATUS_PENDING:
            found, token, answer = acme.challenge(client, proof)
            orders.offer(mine(work), token, answer)
            session.commit()
            acme.look_now(client, found)
    until = time.monotonic() + LONGEST
    while urls := [url for url in urls if awaited(client, url)]:
        if time.monotonic() > until:
            raise acme.Refused(SILENT)
        work.check()
        time.sleep(PAUSE)


def awaited(client, url):
    """Whether the authority is still looking at the domain."""
    proof = acme.authorization(client, url)
    if why := acme.refusal(proof):
        raise acme.Refused(why)
    return proof.status == messages.STATUS_PENDING


def signed(work, client, under_way, request):
    until = time.monotonic() + LONGEST
    while time.monotonic() < until:
        # The library measures by the wall clock, without a zone.
        issued = acme.issued(client, under_way, request, datetime.now() + timedelta(seconds=5))
        if issued:
            return issued
        work.check()
    raise acme.Refused(SILENT)


def sweep():
    """What the schedule rings for: certificates whose time to be renewed has come."""
    for row in session.scalars(orders.due().limit(AT_ONCE)).all():
        with suppress(Conflict):  # somebody asks for it at this moment
            orders.begin(row)
    session.commit()
