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
    """List certificates with their status and the days they have left, newest first."""
    return kit.paginate(certificates.listing(kit.get_current_access(), **query))


@user.post("/certificates", op="create", can=MANAGE_PERMISSION, body=CertificateIn, out=WRAPPED_CERTIFICATE)
def create(body):
    """Upload a certificate with its private key, or order one.

    `manual`: send `certificate`, `private_key` and the `chain` if there is one. The key must belong to the certificate,
    and each certificate of the chain must have signed the one before it; what is wrong is a 422 that names the field.

    `letsencrypt`: send `domains`. The panel orders the certificate from the operators' authority and renews it 30 days
    before its end. Poll it until it is no longer `pending`. The authority asks each domain, by HTTP on port 80, for a
    file below `/.well-known/acme-challenge/`, which the panel has. So either the domain's DNS record leads to the
    panel, or its web server redirects that path to the same path of the panel: authorities follow redirects. A domain
    for which another account has such a certificate is refused, as is a wildcard.

    An account that has as many certificates as its limit `max_certificates` allows gets a 422 `limit_reached`: see
    `GET /api/account/limits`. An account may order 20 certificates an hour.
    """
    certificate = certificates.create(kit.get_current_access(), actor=kit.get_current_actor(), **body)
    message = "The certificate is being ordered." if certificate.ordering else "The certificate is stored."
    return {"message": message, "certificate": certificate}


@user.get(CERTIFICATE_PATH, op="get", can=VIEW_PERMISSION, out=WRAPPED_CERTIFICATE)
def show(certificate_id):
    """Show a certificate. Its private key is never shown."""
    return {"certificate": get_own_certificate(certificate_id)}


@user.patch(CERTIFICATE_PATH, op="update", can=MANAGE_PERMISSION, body=CertificatePatch, out=WRAPPED_CERTIFICATE)
def update(body, certificate_id):
    """Rename a certificate, or replace an uploaded one.

    `certificate` and `private_key` are sent together, with the `chain` if there is one: the old chain goes with the
    old certificate.
    """
    certificate = certificates.update(get_own_certificate(certificate_id), **body)
    return {"message": "The certificate is changed.", "certificate": certificate}


@user.delete(CERTIFICATE_PATH, op="delete", can=DELETE_PERMISSION, out=kit.build_result_schema())
def delete(certificate_id):
    """Remove a certificate with its private key. An order that is under way is ended."""
    certificates.delete(get_own_certificate(certificate_id))
    return {"message": "The certificate is removed."}


@user.post(f"{CERTIFICATE_PATH}/renew", op="renew", can=MANAGE_PERMISSION, out=WRAPPED_CERTIFICATE)
def renew(certificate_id):
    """Order a certificate once more: before its time, or after an order that failed.

    What there is stays in use until the new one is there. Refused with 409: `task_running` while an order is under way,
    `not_renewable` for an uploaded one.
    """
    certificate = certificates.renew(get_own_certificate(certificate_id), actor=kit.get_current_actor())
    return {"message": "The certificate is being ordered.", "certificate": certificate}
