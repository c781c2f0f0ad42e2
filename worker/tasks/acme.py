"""Talking to a certificate authority in ACME (RFC 8555), by certbot's library. Its address is the operators' choice;
the panel asks nobody else."""

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

from panel.core.db import session
from panel.core.errors import Problem
from panel.models import AcmeAccount
from panel.services import settings
from panel.services.webhooks import url_policy
from panel.services.webhooks.pinned_connection import create_ssl_context

log = structlog.get_logger()

ACME_TIMEOUT_SECONDS = 20
"""Seconds that the authority may take to answer a question."""

ACCOUNT_UNKNOWN_CODE = "accountDoesNotExist"


class Refused(Problem):
    """The authority does not issue the certificate, or cannot be asked. The message is its own words."""


class CustomCAAdapter(HTTPAdapter):
    """HTTPS to authorities of a laboratory too (PANEL_WEBHOOK_CA)."""

    def init_poolmanager(self, *args, **options):
        super().init_poolmanager(*args, ssl_context=create_ssl_context(url_policy.extra_ca_certificates), **options)


@contextmanager
def translate_errors():
    """Faults of the conversation, in words for the customer."""
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
        raise Refused(f"The certificate authority cannot be reached: {type(error).__name__}.") from error
    except (errors.Error, jose.errors.Error, KeyError, ValueError) as error:
        log.warning("acme_not_understood", exc_info=error)
        raise Refused("The certificate authority gave an answer that is not understood.") from error


def describe_error(error):
    """What the authority said: its sentence, and one for each domain that it has something to say of."""
    parts = [f"{each.identifier.value}: {each.detail}" for each in error.subproblems or () if each.identifier]
    return " ".join([error.detail or error.typ, *parts])


def connect_client():
    """A client of the authority that operators chose, as the account that the panel has there."""
    chosen = settings.load()
    row = ensure_account(chosen.acme_directory_url)
    key = jose.JWKEC(key=serialization.load_pem_private_key(row.key.encode(), None))
    session.commit()
    net = ClientNetwork(key, alg=jose.ES256, user_agent="panel", timeout=ACME_TIMEOUT_SECONDS)
    net.session.mount("https://", CustomCAAdapter())
    client = ClientV2(ClientV2.get_directory(row.directory_url, net), net)
    body = messages.NewRegistration.from_data(email=chosen.acme_contact or None, terms_of_service_agreed=True)
    if row.uri is None:
        row.uri = register(client, body)
        session.commit()
    net.account = messages.RegistrationResource(body=body, uri=row.uri)
    return client


def ensure_account(directory_url):
    """The panel's account there. The key is made once, whoever comes first."""
    mine = select(AcmeAccount).where(AcmeAccount.directory_url == directory_url)
    found = session.scalar(mine)
    if found is None:
        try:
            with session.begin_nested():
                session.add(AcmeAccount(directory_url=directory_url, key=generate_key()))
        except IntegrityError:
            pass  # another worker was first
        found = session.scalar(mine)
    return found


def register(client, body):
    """The name of the account at the authority, which is the same however often it is asked for."""
    try:
        return client.new_account(body).uri
    except errors.ConflictError as known:
        return known.location


def forget_account():
    """The authority does not know the account any more: the next order registers it anew."""
    session.rollback()
    ensure_account(settings.load().acme_directory_url).uri = None
    session.commit()


def generate_key():
    key = ec.generate_private_key(ec.SECP256R1())
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def build_csr(domains, key):
    """What the authority is asked to sign, PEM."""
    names = x509.SubjectAlternativeName([x509.DNSName(each) for each in domains])
    asked = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).add_extension(names, critical=False)
    private = serialization.load_pem_private_key(key.encode(), None)
    return asked.sign(private, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def create_order(client, request):
    """A new order: its addresses at the authority, to be kept."""
    made = client.new_order(request)
    return {"uri": made.uri, "finalize": made.body.finalize, "authorizations": list(made.body.authorizations)}


def fetch_authorization(client, url):
    """How far the proof for one domain is."""
    return client.poll(messages.AuthorizationResource(uri=url, body=messages.Authorization()))[0].body


def get_http_challenge(client, proof):
    """Of a proof that is awaited: the part to be answered by HTTP, its token, and what is to be answered there."""
    found = next((each for each in proof.challenges if isinstance(each.chall, HTTP01)), None)
    if found is None:
        raise Refused(f"The certificate authority does not check {proof.identifier.value} by HTTP.")
    return found, found.chall.encode("token"), found.chall.key_authorization(client.net.key)


def answer_challenge(client, found):
    """Tells the authority that the answer is there."""
    if found.status == messages.STATUS_PENDING:
        client.answer_challenge(found, found.chall.response(client.net.key))


def challenge_error(proof):
    """Why the authority does not believe in the domain, or None. While it is still looking there is no answer."""
    if proof.status in (messages.STATUS_VALID, messages.STATUS_PENDING):
        return None
    told = [describe_error(each.error) for each in proof.challenges if each.error]
    return f"{proof.identifier.value}: {' '.join(told) or f'The proof is {proof.status.name}.'}"


def wait_for_certificate(client, order, request, until):
    """The certificate with its chain, PEM, once there is one. None when there is none until then."""
    body = messages.Order(authorizations=order["authorizations"], finalize=order["finalize"])
    row = messages.OrderResource(uri=order["uri"], body=body, csr_pem=request)
    try:
        return client.poll_finalization(row, until).fullchain_pem
    except errors.TimeoutError:
        return None
