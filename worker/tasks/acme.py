"""ACME (RFC 8555) client, based on certbot's library. Operators choose the certificate authority."""

from contextlib import contextmanager

import josepy as jose
import requests
import structlog
from acme import errors, messages
from acme.challenges import HTTP01
from acme.client import ClientNetwork, ClientV2
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from requests.adapters import HTTPAdapter
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from panel.core import context
from panel.core.db import session
from panel.core.errors import Problem
from panel.core.messages import message
from panel.models import AcmeAccount
from panel.services import settings
from panel.services.webhooks.pinned_connection import create_ssl_context

log = structlog.get_logger()

ACME_TIMEOUT_SECONDS = 20
"""Seconds that the authority may take to answer a request."""

ACCOUNT_UNKNOWN_CODE = "accountDoesNotExist"


class Refused(Problem):
    """The authority does not issue the certificate, or cannot be asked. The message is for the customer."""


class CustomCAAdapter(HTTPAdapter):
    """HTTPS that also trusts the CA certificates of PANEL_WEBHOOK_CA, for authorities in test installations."""

    def init_poolmanager(self, *args, **options):
        super().init_poolmanager(*args, ssl_context=create_ssl_context(context.current().config.webhook_ca), **options)


@contextmanager
def translate_errors():
    """Translate errors of the ACME library into Refused with a message for the customer."""
    try:
        yield
    except messages.Error as error:
        if error.code == ACCOUNT_UNKNOWN_CODE:
            forget_account()
        raise Refused(describe_error(error)) from error
    except errors.IssuanceError as error:
        raise Refused(describe_error(error.error)) from error
    except requests.RequestException as error:
        log.warning("acme_unreachable", error=str(error))
        raise Refused(
            message("The certificate authority cannot be reached: {error}.", error=type(error).__name__)
        ) from error
    except (errors.Error, jose.errors.Error, KeyError, ValueError) as error:
        log.warning("acme_response_invalid", exc_info=error)
        raise Refused(
            message("The certificate authority sent an answer that the panel does not understand.")
        ) from error


def describe_error(error):
    """Return the authority's error text, followed by one text for each domain with an error of its own."""
    parts = [
        f"{subproblem.identifier.value}: {subproblem.detail}"
        for subproblem in error.subproblems or ()
        if subproblem.identifier
    ]
    return " ".join([error.detail or error.typ, *parts])[:2000]


def connect_client():
    """Return a client for the authority in the settings, registered with the panel's account."""
    config = settings.load()
    row = ensure_account(config.acme_directory_url)
    key = jose.JWKEC(key=serialization.load_pem_private_key(row.key.encode(), None))
    session.commit()
    net = ClientNetwork(key, alg=jose.ES256, user_agent="panel", timeout=ACME_TIMEOUT_SECONDS)
    net.session.mount("https://", CustomCAAdapter())
    client = ClientV2(ClientV2.get_directory(row.directory_url, net), net)
    body = messages.NewRegistration.from_data(email=config.acme_contact or None, terms_of_service_agreed=True)
    if row.uri is None:
        row.uri = register(client, body)
        session.commit()
    net.account = messages.RegistrationResource(body=body, uri=row.uri)
    return client


def ensure_account(directory_url):
    """Return the row of the panel's account at the authority. Its key is generated once."""
    query = select(AcmeAccount).where(AcmeAccount.directory_url == directory_url)
    row = session.scalar(query)
    if row is None:
        try:
            with session.begin_nested():
                session.add(AcmeAccount(directory_url=directory_url, key=generate_key()))
        except IntegrityError:
            pass  # another worker was first
        row = session.scalar(query)
    return row


def register(client, body):
    """Return the account's URI at the authority. Repeating the request returns the same one."""
    try:
        return client.new_account(body).uri
    except errors.ConflictError as conflict:
        return conflict.location


def forget_account():
    """Forget the account's URI, so that the next order registers it again."""
    session.rollback()
    ensure_account(settings.load().acme_directory_url).uri = None
    session.commit()


def generate_key():
    key = ec.generate_private_key(ec.SECP256R1())
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def build_csr(domains, key):
    """Return the certificate signing request, PEM."""
    names = x509.SubjectAlternativeName([x509.DNSName(domain) for domain in domains])
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).add_extension(names, critical=False)
    private_key = serialization.load_pem_private_key(key.encode(), None)
    return builder.sign(private_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def create_order(client, request):
    """Create an order and return its URLs at the authority, as stored in the certificate's row."""
    order = client.new_order(request)
    return {"uri": order.uri, "finalize": order.body.finalize, "authorizations": list(order.body.authorizations)}


def fetch_authorization(client, url):
    """Return the authorization of one domain, with its current status."""
    return client.poll(messages.AuthorizationResource(uri=url, body=messages.Authorization()))[0].body


def get_http_challenge(client, proof):
    """Return the pending authorization's HTTP challenge, its token and the expected answer.

    Raises Refused when the authority offers no HTTP challenge.
    """
    challenge = next((candidate for candidate in proof.challenges if isinstance(candidate.chall, HTTP01)), None)
    if challenge is None:
        raise Refused(
            message("The certificate authority does not check {domain} by HTTP.", domain=proof.identifier.value)
        )
    return challenge, challenge.chall.encode("token"), challenge.chall.key_authorization(client.net.key)


def answer_challenge(client, challenge):
    """Tell the authority that the answer can be fetched."""
    if challenge.status == messages.STATUS_PENDING:
        client.answer_challenge(challenge, challenge.chall.response(client.net.key))


def challenge_error(proof):
    """Return why the authority rejects the domain, or None when it is valid or still being checked."""
    if proof.status in (messages.STATUS_VALID, messages.STATUS_PENDING):
        return None
    details = [describe_error(challenge.error) for challenge in proof.challenges if challenge.error]
    detail = " ".join(details) or message("The proof is {status}.", status=proof.status.name)
    return message("{domain}: {detail}", domain=proof.identifier.value, detail=detail)


def wait_for_certificate(client, order, request, until):
    """Return the certificate with its chain, PEM; None when it is not issued by `until`."""
    body = messages.Order(authorizations=order["authorizations"], finalize=order["finalize"])
    row = messages.OrderResource(uri=order["uri"], body=body, csr_pem=request)
    try:
        return client.poll_finalization(row, until).fullchain_pem
    except errors.TimeoutError:
        return None
