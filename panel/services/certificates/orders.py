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
from panel.models.certificates import EXPIRY_WARNING
from panel.models.tasks import OPEN_STATUSES
from panel.services import account_limits
from panel.services.certificates import pem

ORDER_TASK_KIND = "certificate_order"
MAX_ORDERS_PER_HOUR = 20
"""Orders of one account: authorities count those of the whole installation."""

FIRST_RETRY_DELAY, MAX_RETRY_DELAY = timedelta(hours=1), timedelta(hours=24)
"""Pauses between attempts to renew."""

OWN_NAME_MESSAGE = "This is the panel's own name."
DOMAIN_TAKEN_MESSAGE = "Another account has a certificate for {} here. It has to be removed there first."
NOT_RENEWABLE_MESSAGE = (
    "An uploaded certificate cannot be renewed here: get a new one from its authority and replace it."
)


def order_certificate(account, *, domains, actor, name=None):
    """A new certificate of the account, which workers have issued."""
    ensure_domains_available(account, domains)
    account_limits.ensure_one_more(account.id, "max_certificates")
    ensure_order_rate(account.id)
    made = Certificate(account_id=account.id, type="letsencrypt", name=name or domains[0], domains=domains)
    session.add(made)
    session.flush()
    start_order(made, actor=actor)
    return made


def ensure_domains_available(account, domains):
    """What leads to the panel for itself or for another account proves nothing about this one."""
    ours = urlsplit(mail.config.public_url).hostname
    taken = next(iter(set(domains) & list_foreign_domains(account, domains)), None)
    if ours in domains or taken:
        sentence = OWN_NAME_MESSAGE if ours in domains else DOMAIN_TAKEN_MESSAGE.format(taken)
        raise Invalid(sentence, domains=sentence)


def list_foreign_domains(account, domains):
    """What other accounts' valid certificates are for: those that were ordered here and are for one of the domains."""
    text = cast(Certificate.domains, String)
    names_one = or_(*(text.contains(f'"{domain}"', autoescape=True) for domain in domains))
    valid = select(Certificate.domains).where(Certificate.type == "letsencrypt", Certificate.not_after > clock.now())
    found = session.scalars(valid.where(Certificate.account_id != account.id, names_one))
    return {domain for names in found for domain in names}


def ensure_order_rate(account_id):
    since = clock.now() - timedelta(hours=1)
    lately = select(func.count()).where(
        Task.kind == ORDER_TASK_KIND, Task.account_id == account_id, Task.created_at > since
    )
    if session.scalar(lately) >= MAX_ORDERS_PER_HOUR:
        raise TooMany(f"An account may order {MAX_ORDERS_PER_HOUR} certificates an hour. Wait a little.", seconds=600)


def renew(row, *, actor):
    """Orders it once more: before its time, or after an order that failed. What there is stays in use meanwhile."""
    if row.type == "manual":
        raise Conflict(NOT_RENEWABLE_MESSAGE, reason="not_renewable")
    ensure_order_rate(row.account_id)
    start_order(row, actor=actor)
    return row


def start_order(row, *, actor="system"):
    """Asks the workers for an order. Raises `task_running` when one is under way."""
    task = jobs.enqueue(ORDER_TASK_KIND, "certificate", row, lock="exclusive", actor=actor)
    remove_challenges(row)
    row.task_id, row.ordering = task.id, True
    row.error = row.error_at = row.order = row.order_key = None
    session.flush()


def lock_certificate(task):
    """The certificate that the task orders, read anew and locked; None when it is gone or another order counts."""
    row = session.get(Certificate, task.resource_id, with_for_update={"key_share": True}, populate_existing=True)
    return row if row and row.task_id == task.id else None


def add_challenge(row, token, answer):
    """From now on whoever asks the panel for the token gets the answer."""
    if session.scalar(select(AcmeChallenge.id).where(AcmeChallenge.token == token)) is None:
        session.add(AcmeChallenge(certificate_id=row.id, token=token, answer=answer))
        session.flush()


def find_challenge_answer(token):
    """What an open order has for the token, or None."""
    return session.scalar(select(AcmeChallenge.answer).where(AcmeChallenge.token == token))


def remove_challenges(row):
    session.execute(delete(AcmeChallenge).where(AcmeChallenge.certificate_id == row.id))


def record_issued(row, issued):
    """Puts the issued certificate, a PEM text with its chain, in the place of what there was."""
    leaf, *above = (
        each.public_bytes(Encoding.PEM).decode() for each in x509.load_pem_x509_certificates(issued.encode())
    )
    for column, value in pem.parse_certificate(leaf, "".join(above), row.order_key).items():
        setattr(row, column, value)
    row.attempts, row.next_attempt_at = 0, calculate_renewal_time(row)
    finish_order(row)


def calculate_renewal_time(row):
    """When it is renewed: 30 days before its end, or in the last third of a life that is shorter than usual."""
    return max(row.not_after - EXPIRY_WARNING, row.not_after - (row.not_after - row.not_before) / 3)


def record_failure(row, error):
    """Notes why, and when it is tried again. The first order is not: somebody has to look at the domain first."""
    row.error, row.error_at = error[:2000], clock.now()
    if row.not_after:
        row.next_attempt_at = clock.now() + min(FIRST_RETRY_DELAY * 2 ** min(row.attempts, 10), MAX_RETRY_DELAY)
    row.attempts += 1
    finish_order(row)


def finish_order(row):
    row.ordering, row.order, row.order_key = False, None, None
    remove_challenges(row)
    session.flush()


def select_due():
    """The certificates to be renewed now that nobody works on."""
    worked_on = exists().where(Task.resource_id == Certificate.id, Task.status.in_(OPEN_STATUSES))
    found = select(Certificate).where(Certificate.next_attempt_at <= clock.now(), ~worked_on)
    return found.order_by(Certificate.next_attempt_at).with_for_update(key_share=True, skip_locked=True)
