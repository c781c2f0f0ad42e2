"""Certificates and private keys for tests."""

from datetime import timedelta
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from panel.core import clock

CURVE = ec.SECP256R1()

SHA256 = hashes.SHA256()


class IssuedCertificate(NamedTuple):
    """A certificate with its key: as objects, and as PEM texts."""

    certificate: x509.Certificate
    key: object

    @property
    def pem(self):
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def key_pem(self):
        return encode_private_key(self.key)

    def body(self, *above, **fields):
        """Return the request body that uploads it, with the certificates above it as the chain."""
        chain = {"chain": "".join(certificate.pem for certificate in above)} if above else {}
        return {"certificate": self.pem, "private_key": self.key_pem, **chain, **fields}


def encode_private_key(key, encryption=None, form=serialization.PrivateFormat.PKCS8):
    how = encryption or serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, how).decode()


def issue_certificate(
    domains=("shop.example.com",), *, by=None, key=None, days=90, before=1, ca=None, name="shop", signed=SHA256
):
    """Issue a certificate for the domains (None: no alternative names) that expires in `days`.

    It is signed `by` another one, or self-signed. `ca` is its basic constraint (None: without that extension).
    """
    key = key or ec.generate_private_key(CURVE)
    now = clock.now()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by.certificate.subject if by else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=before))
        .not_valid_after(now + (days if isinstance(days, timedelta) else timedelta(days=days)))
    )
    if ca is not None:
        builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    if domains is not None:
        hosts = [host if isinstance(host, x509.GeneralName) else x509.DNSName(host) for host in domains]
        builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
    return IssuedCertificate(builder.sign(by.key if by else key, signed), key)
