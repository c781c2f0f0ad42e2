"""Customers' certificates."""

from api import kit
from panel.schemas.certificates import (
    CertificateIn,
    CertificateOut,
    CertificatePatch,
    CertificateQuery,
    CertificateRow,
)
from panel.services import certificates

user = kit.User("certificate", __name__, description="TLS certificates")

CERTIFICATE_PATH = "/certificate/<certificate_id>"
VIEW_PERMISSION, MANAGE_PERMISSION, DELETE_PERMISSION = (
    "certificates.view",
    "certificates.manage",
    "certificates.delete",
)
WRAPPED_CERTIFICATE = kit.build_wrapped_schema("certificate", CertificateOut)


def get_own_certificate(certificate_id):
    return certificates.get(certificate_id, kit.get_current_access())


@user.get(
    "/certificates", op="list", can=VIEW_PERMISSION, query=CertificateQuery, out=kit.build_page_schema(CertificateRow)
)
def listing(query):
    """List certificates with status and days until expiry, newest first."""
    return kit.paginate(certificates.listing(kit.get_current_access(), **query))


@user.post("/certificates", op="create", can=MANAGE_PERMISSION, body=CertificateIn, out=WRAPPED_CERTIFICATE)
def create(body):
    """Upload a certificate with its private key, or order one.

    `manual`: send `certificate`, `private_key` and, if there is one, `chain`. The key must match the certificate, and
    each certificate of the chain must have signed the previous one; otherwise the request returns 422 under the field.

    `letsencrypt`: send `domains`. The panel orders the certificate from the configured authority and renews it 30 days
    before it expires. Poll the certificate until it is no longer `pending`. The authority validates each domain over
    HTTP on port 80 with a file below `/.well-known/acme-challenge/`, which the panel serves. Point the domain's DNS
    record at the panel, or redirect that path from your web server to the same path of the panel. Wildcards are
    refused, and so are domains for which another account has such a certificate.

    Returns 422 `limit_reached` when the account has reached `max_certificates` (see `GET /api/account/limits`). An
    account can order 20 certificates per hour.
    """
    certificate = certificates.create(kit.get_current_access(), actor=kit.get_current_actor(), **body)
    message = "Order requested." if certificate.ordering else "Certificate uploaded."
    return {"message": message, "certificate": certificate}


@user.get(CERTIFICATE_PATH, op="get", can=VIEW_PERMISSION, out=WRAPPED_CERTIFICATE)
def show(certificate_id):
    """Get a certificate. The private key is never returned."""
    return {"certificate": get_own_certificate(certificate_id)}


@user.patch(CERTIFICATE_PATH, op="update", can=MANAGE_PERMISSION, body=CertificatePatch, out=WRAPPED_CERTIFICATE)
def update(body, certificate_id):
    """Rename a certificate, or replace an uploaded one.

    Send `certificate` and `private_key` together, and `chain` if there is one: the old chain is removed with the old
    certificate.
    """
    certificate = certificates.update(get_own_certificate(certificate_id), **body)
    return {"message": "Certificate updated.", "certificate": certificate}


@user.delete(CERTIFICATE_PATH, op="delete", can=DELETE_PERMISSION, out=kit.build_result_schema())
def delete(certificate_id):
    """Delete a certificate and its private key. An order in progress is cancelled."""
    certificates.delete(get_own_certificate(certificate_id))
    return {"message": "Certificate deleted."}


@user.post(f"{CERTIFICATE_PATH}/renew", op="renew", can=MANAGE_PERMISSION, out=WRAPPED_CERTIFICATE)
def renew(certificate_id):
    """Order a certificate again: before it expires, or after a failed order.

    The current certificate stays in use until the new one is issued. Returns 409 `task_running` while an order is in
    progress and 409 `not_renewable` for an uploaded certificate.
    """
    certificate = certificates.renew(get_own_certificate(certificate_id), actor=kit.get_current_actor())
    return {"message": "Order requested.", "certificate": certificate}
