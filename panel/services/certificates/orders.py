"""Ordering certificates from an authority, and what workers write of it. The proof that a domain is the customer's is
that it leads to the panel, which answers the authority (RFC 8555, HTTP-01)."""

from datetime import timedelta
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from sqlalchemy import String, cast, delete, exists, func, or_, select

from panel.core import clock, jobs, mail
from panel.core.db import session
from panel.core.errors import Conflict, Invalid, TooMany
from panel.models import AcmeChallenge, Certificate, Task
from panel.models.certificates import WARNING
from panel.models.tasks import OPEN
from panel.services import account_limits
from panel.services.certificates import pem

KIND = "certificate_order"
AN_HOUR = 20
"""Orders of one account: authorities count those of the whole installation."""

FIRST, LONGEST = timedelta(hours=1), timedelta(hours=24)
"""Pauses between attempts to renew."""

OURS = "This is the panel's own name."
TAKEN = "Another account has a certificate for {} here. It has to be removed there first."
UPLOADED = "An uploaded certificate cannot be renewed here: get a new one from its authority and replace it."


def order(account, *, domains, actor, name=None):
    """A new certificate of the account, which workers have issued."""
    refuse_foreign(account, domains)
    account_limits.allow_another(account.id, "max_certificates")
    refuse_many(account.id)
    made = Certificate(account_id=account.id, type="letsencrypt", name=name or domains[0], domains=domains)
    session.add(made)
    session.flush()
    begin(made, actor=actor)
    return made


def refuse_foreign(account, domains):
    """What leads to the panel for itself or for another account proves nothing about this one."""
    ours = urlsplit(mail.config.public_url).hostname
    taken = next(iter(set(domains) & held_elsewhere(account, domains)), None)
    if ours in domains or taken:
        sentence = OURS if ours in domains else TAKEN.format(taken)
        raise Invalid(sentence, domains=sentence)


def held_elsewhere(account, domains):
    """What other accounts' valid certificates are for: those that were ordered here and are for one of the domains."""
    text = cast(Certificate.domains, String)
    names_one = or_(*(text.contains(f'"{domain}"', autoescape=True) for domain in domains))
    valid = select(Certificate.domains).where(Certificate.type == "letsencrypt", Certificate.not_after > clock.now())
    found = session.scalars(valid.where(Certificate.account_id != account.id, names_one))
    return {domain for names in found for domain in names}


def refuse_many(account_id):
    since = clock.now() - timedelta(hours=1)
    lately = select(func.count()).where(Task.kind == KIND, Task.account_id == account_id, Task.created_at > since)
    if session.scalar(lately) >= AN_HOUR:
        raise TooMany(f"An account may order {AN_HOUR} certificates an hour. Wait a little.", seconds=600)


def renew(row, *, actor):
    """Orders it once more: before its time, or after an order that failed. What there is stays in use meanwhile."""
    if row.type == "manual":
        raise Conflict(UPLOADED, reason="not_renewable")
    refuse_many(row.account_id)
    begin(row, actor=actor)
    return row


def begin(row, *, actor="system"):
    """Asks the workers for an order. Raises `task_running` when one is under way."""
    task = jobs.enqueue(KIND, "certificate", row, lock="exclusive", actor=actor)
    withdraw(row)
    row.task_id, row.ordering = task.id, True
    row.error = row.error_at = row.order = row.order_key = None
    session.flush()


def held_by(task):
    """The certificate that the task orders, read anew and locked; None when it is gone or another order counts."""
    row = session.get(Certificate, task.resource_id, with_for_update={"key_share": True}, populate_existing=True)
    return row if row and row.task_id == task.id else None


def offer(row, token, answer):
    """From now on whoever asks the panel for the token gets the answer."""
    if session.scalar(select(AcmeChallenge.id).where(AcmeChallenge.token == token)) is None:
        session.add(AcmeChallenge(certificate_id=row.id, token=token, answer=answer))
        session.flush()


def answer_to(token):
    """What an open order has for the token, or None."""
    return session.scalar(select(AcmeChallenge.answer).where(AcmeChallenge.token == token))


def withdraw(row):
    session.execute(delete(AcmeChallenge).where(AcmeChallenge.certificate_id == row.id))


def arrived(row, issued):
    """Puts the issued certificate, a PEM text with its chain, in the place of what there was."""
    leaf, *above = (
        each.public_bytes(Encoding.PEM).decode() for each in x509.load_pem_x509_certificates(issued.encode())
    )
    for column, value in pem.facts(leaf, "".join(above), row.order_key).items():
        setattr(row, column, value)
    row.attempts, row.next_attempt_at = 0, renewal(row)
    over(row)


def renewal(row):
    """When it is renewed: 30 days before its end, or in the last third of a life that is shorter than usual."""
    return max(row.not_after - WARNING, row.not_after - (row.not_after - row.not_before) / 3)


def failed(row, error):
    """Notes why, and when it is tried again. The first order is not: somebody has to look at the domain first."""
    row.error, row.error_at = error[:2000], clock.now()
    if row.not_after:
        row.next_attempt_at = clock.now() + min(FIRST * 2 ** min(row.attempts, 10), LONGEST)
    row.attempts += 1
    over(row)


def over(row):
    row.ordering, row.order, row.order_key = False, None, None
    withdraw(row)
    session.flush()


def due():
    """The certificates to be renewed now that nobody works on."""
    worked_on = exists().where(Task.resource_id == Certificate.id, Task.status.in_(OPEN))
    found = select(Certificate).where(Certificate.next_attempt_at <= clock.now(), ~worked_on)
    return found.order_by(Certificate.next_attempt_at).with_for_update(key_share=True, skip_locked=True)
