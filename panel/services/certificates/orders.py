"""Ordering certificates from an authority (ACME), and the results that workers record. A domain is validated by HTTP-01
(RFC 8555): it must lead to the panel, which answers the authority."""

from datetime import datetime, timedelta
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from sqlalchemy import Select, String, cast, delete, exists, func, or_, select

from panel.core import clock, context, jobs
from panel.core.db import lock_row, session
from panel.core.errors import Conflict, Invalid, TooMany
from panel.core.messages import message
from panel.core.task_kinds import task_kind
from panel.models import Account, AcmeChallenge, Certificate, Task
from panel.models.certificates import EXPIRY_WARNING
from panel.models.tasks import OPEN_STATUSES
from panel.services import account_limits, brands
from panel.services.access import Access
from panel.services.certificates import pem

ORDER_TASK_KIND = task_kind("certificate_order", "Certificate order")
MAX_ORDERS_PER_HOUR = 20
"""Orders of one account. Authorities limit those of the whole installation."""

FIRST_RETRY_DELAY, MAX_RETRY_DELAY = timedelta(hours=1), timedelta(hours=24)
"""Pauses between attempts to renew."""

OWN_NAME_MESSAGE = message("This is the panel's own name.")
DOMAIN_TAKEN_MESSAGE = message("Another account has a certificate for {domain}. It must be removed there first.")
NOT_RENEWABLE_MESSAGE = message(
    "An uploaded certificate cannot be renewed here. Get a new one from its authority and replace it."
)


def order_certificate(
    account: Access | Account, *, domains: list[str], actor: str, name: str | None = None
) -> Certificate:
    """Create a certificate of the account and start an order for it."""
    ensure_domains_available(account, domains)
    account_limits.ensure_one_more(account.id, "max_certificates")
    ensure_order_rate(account.id)
    row = Certificate(account_id=account.id, type="letsencrypt", name=name or domains[0], domains=domains)
    session.add(row)
    session.flush()
    start_order(row, actor=actor)
    return row


def ensure_domains_available(account: Access | Account, domains: list[str]) -> None:
    """Raise for the panel's own name and for domains of other accounts. They also lead to the panel, so HTTP-01 proves
    nothing about this account."""
    own_names = {urlsplit(context.current().config.public_url).hostname, *brands.list_hosts()}
    foreign = next(iter(set(domains) & list_foreign_domains(account, domains)), None)
    is_own = not own_names.isdisjoint(domains)
    if is_own or foreign:
        sentence = OWN_NAME_MESSAGE if is_own else DOMAIN_TAKEN_MESSAGE.format(domain=foreign)
        raise Invalid(sentence, domains=sentence)


def list_foreign_domains(account: Access | Account, domains: list[str]) -> set[str]:
    """Return the domains of other accounts' valid ordered certificates that have one of these domains."""
    domains_text = cast(Certificate.domains, String)
    names_one = or_(*(domains_text.contains(f'"{domain}"', autoescape=True) for domain in domains))
    query = select(Certificate.domains).where(Certificate.type == "letsencrypt", Certificate.not_after > clock.now())
    domain_lists = session.scalars(query.where(Certificate.account_id != account.id, names_one))
    return {domain for names in domain_lists for domain in names}


def ensure_order_rate(account_id: str) -> None:
    since = clock.now() - timedelta(hours=1)
    recent = select(func.count()).where(
        Task.kind == ORDER_TASK_KIND, Task.account_id == account_id, Task.created_at > since
    )
    if session.scalars(recent).one() >= MAX_ORDERS_PER_HOUR:
        raise TooMany(
            message(
                "An account can order at most {maximum} certificates per hour. Try again later.",
                maximum=MAX_ORDERS_PER_HOUR,
            ),
            seconds=600,
        )


def renew(row: Certificate, *, actor: str) -> Certificate:
    """Order the certificate again: early, or after a failed order. The current one stays in use meanwhile."""
    if row.type == "manual":
        raise Conflict(NOT_RENEWABLE_MESSAGE, reason="not_renewable")
    ensure_order_rate(row.account_id)
    start_order(row, actor=actor)
    return row


def start_order(row: Certificate, *, actor: str = "system") -> None:
    """Enqueue an order. Raise `task_running` when one is open."""
    task = jobs.enqueue(ORDER_TASK_KIND, "certificate", row, lock="exclusive", actor=actor)
    remove_challenges(row)
    row.task_id, row.ordering = task.id, True
    row.error = row.error_at = row.order = row.order_key = None
    session.flush()


def lock_certificate(task: Task) -> Certificate | None:
    """Return the certificate of the task, read again and locked; None when it is gone or a later order replaced the
    task."""
    row = lock_row(Certificate, task.resource_id)
    return row if row and row.task_id == task.id else None


def add_challenge(row: Certificate, token: str, answer: str) -> None:
    """Store the answer that the panel gives for the token from now on."""
    if session.scalar(select(AcmeChallenge.id).where(AcmeChallenge.token == token)) is None:
        session.add(AcmeChallenge(certificate_id=row.id, token=token, answer=answer))
        session.flush()


def find_challenge_answer(token: str) -> str | None:
    """Return the answer of an open order for the token, or None."""
    return session.scalar(select(AcmeChallenge.answer).where(AcmeChallenge.token == token))


def remove_challenges(row: Certificate) -> None:
    session.execute(delete(AcmeChallenge).where(AcmeChallenge.certificate_id == row.id))


def record_issued(row: Certificate, issued: str) -> None:
    """Replace the certificate by the issued one, a PEM text with its chain."""
    leaf, *chain = (
        certificate.public_bytes(Encoding.PEM).decode()
        for certificate in x509.load_pem_x509_certificates(issued.encode())
    )
    for column, value in pem.parse_certificate(leaf, "".join(chain), row.order_key or "").items():
        setattr(row, column, value)
    row.attempts, row.next_attempt_at = 0, calculate_renewal_time(row)
    finish_order(row)


def calculate_renewal_time(row: Certificate) -> datetime | None:
    """Return when to renew: 30 days before the end, or in the last third of a short-lived certificate; None
    before one is issued."""
    if row.not_before is None or row.not_after is None:
        return None
    return max(row.not_after - EXPIRY_WARNING, row.not_after - (row.not_after - row.not_before) / 3)


def record_failure(row: Certificate, error: str) -> None:
    """Record the error and the time of the next attempt. A first order is not repeated: its owner has to check the
    domain first."""
    row.error, row.error_at = error, clock.now()
    if row.not_after:
        row.next_attempt_at = clock.now() + min(FIRST_RETRY_DELAY * 2 ** min(row.attempts, 10), MAX_RETRY_DELAY)
    row.attempts += 1
    finish_order(row)


def finish_order(row: Certificate) -> None:
    row.ordering, row.order, row.order_key = False, None, None
    remove_challenges(row)
    session.flush()


def select_due() -> Select[Certificate]:
    """Select the certificates that are due for renewal and have no open task."""
    has_open_task = exists().where(Task.resource_id == Certificate.id, Task.status.in_(OPEN_STATUSES))
    query = select(Certificate).where(Certificate.next_attempt_at <= clock.now(), ~has_open_task)
    return query.order_by(Certificate.next_attempt_at).with_for_update(key_share=True, skip_locked=True)
