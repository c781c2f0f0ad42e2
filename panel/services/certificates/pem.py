"""Parsing a certificate, its chain and its key, and checking that they belong together.

Every error is an Invalid that names the field. The text that was sent is never part of a message, because it may be a
key.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from panel.core.errors import Invalid
from panel.core.messages import message

PEM_HEADER_PATTERN = re.compile(r"-----BEGIN ([A-Z0-9 ]{1,40})-----")
CURVE_NAMES = {"secp256r1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521"}
MIN_RSA_BITS, MAX_RSA_BITS = 2048, 8192
MAX_CHAIN_CERTIFICATES = 10
"""Maximum number of certificates, the first one included. Three is usual."""

HOST_NAME_PATTERN = re.compile(r"[\x21-\x7e]{1,253}")
NON_PRINTABLE_PATTERN = re.compile(r"[^\x20-\x7e\xa1-\ud7ff\ue000-\ufffd]")
MIN_SHOWN_TIME, MAX_SHOWN_TIME = datetime(1950, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)
"""Times outside this range cannot be shown in every time zone. Certificates of devices "without an end" have one."""

NO_CERTIFICATE_MESSAGE = message("This is not a certificate in PEM format. It begins with -----BEGIN CERTIFICATE-----.")
NO_KEY_MESSAGE = message("This is not a private key in PEM format. It begins with -----BEGIN PRIVATE KEY-----.")
ENCRYPTED_KEY_MESSAGE = message(
    "The key is protected by a passphrase. Remove that first: openssl pkey -in key.pem -out open.pem"
)
KEY_MISMATCH_MESSAGE = message("The key belongs to another certificate.")
UNSUPPORTED_KEY_MESSAGE = message(
    "Its key must be RSA with at least {bits} bits, or of the elliptic curve P-256, P-384 or P-521.",
    bits=MIN_RSA_BITS,
)


def parse_certificate(certificate: str, chain: str | None, private_key: str) -> dict[str, Any]:
    """Return the columns of a certificate from its PEM texts, after checking all three."""
    leaf, *issuers = load_certificates(certificate, "certificate")
    if chain:
        issuers += load_certificates(chain, "chain")
    if len(issuers) >= MAX_CHAIN_CERTIFICATES:
        raise_invalid(
            "chain" if chain else "certificate",
            message("There are more than {maximum} certificates in it.", maximum=MAX_CHAIN_CERTIFICATES),
        )
    try:
        facts = describe_certificate(leaf)
    except (ValueError, UnsupportedAlgorithm):
        raise_invalid("certificate", message("The certificate is malformed."))
    ensure_key_matches(private_key, leaf)
    ensure_chain_signed(leaf, issuers, "chain" if chain else "certificate")
    return {"certificate": certificate, "chain": chain or None, "private_key": private_key, **facts}


def raise_invalid(error_field: str, sentence: str) -> NoReturn:
    raise Invalid(sentence, **{error_field: sentence})


def load_certificates(text: str, error_field: str) -> list[x509.Certificate]:
    """Return the certificates in the text, in its order. Anything else is refused, above all a private key, because the
    text is shown again."""
    kinds = PEM_HEADER_PATTERN.findall(text)
    if any("PRIVATE KEY" in kind for kind in kinds):
        raise_invalid(error_field, message("There is a private key in it. Send that as private_key only."))
    if any(kind != "CERTIFICATE" for kind in kinds):
        raise_invalid(error_field, NO_CERTIFICATE_MESSAGE)
    try:
        certificates = x509.load_pem_x509_certificates(text.encode())
    except (ValueError, UnsupportedAlgorithm):
        raise_invalid(error_field, NO_CERTIFICATE_MESSAGE)
    if len(certificates) != len(kinds):
        raise_invalid(error_field, NO_CERTIFICATE_MESSAGE)
    return certificates


def describe_certificate(leaf: x509.Certificate) -> dict[str, Any]:
    """Return the facts that are in the certificate."""
    domains = list_host_names(leaf)
    if not all(HOST_NAME_PATTERN.fullmatch(name) for name in domains):
        raise ValueError
    digest = leaf.fingerprint(hashes.SHA256()).hex(":").upper()
    return {
        "domains": domains,
        "not_before": clamp_time(leaf.not_valid_before_utc),
        "not_after": clamp_time(leaf.not_valid_after_utc),
        "issuer": NON_PRINTABLE_PATTERN.sub("", leaf.issuer.rfc4514_string())[:255],
        "fingerprint": digest,
        "key_type": get_key_type(leaf),
    }


def list_host_names(leaf: x509.Certificate) -> list[str]:
    """Return the hosts of the certificate: its alternative names, or the common name of an old one."""
    try:
        alternative_names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        common = leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return [str(attribute.value) for attribute in common if HOST_NAME_PATTERN.fullmatch(str(attribute.value))]
    hosts = alternative_names.get_values_for_type(x509.DNSName)
    return list(dict.fromkeys([*hosts, *map(str, alternative_names.get_values_for_type(x509.IPAddress))]))


def clamp_time(moment: datetime) -> datetime:
    return min(max(moment, MIN_SHOWN_TIME), MAX_SHOWN_TIME)


def get_key_type(leaf: x509.Certificate) -> str:
    """Return a name such as `RSA 2048` or `EC P-256`. Raise for keys that web servers and load balancers cannot use."""
    key = leaf.public_key()
    if isinstance(key, rsa.RSAPublicKey) and MIN_RSA_BITS <= key.key_size <= MAX_RSA_BITS:
        return f"RSA {key.key_size}"
    if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in CURVE_NAMES:
        return f"EC {CURVE_NAMES[key.curve.name]}"
    return raise_invalid("certificate", UNSUPPORTED_KEY_MESSAGE)


def ensure_key_matches(text: str, leaf: x509.Certificate) -> None:
    """Raise unless the text is the certificate's own private key, without a passphrase."""
    try:
        key = serialization.load_pem_private_key(text.encode(), None)
    except TypeError:
        raise_invalid("private_key", ENCRYPTED_KEY_MESSAGE)
    except (ValueError, UnsupportedAlgorithm):
        raise_invalid("private_key", NO_KEY_MESSAGE)
    if key.public_key() != leaf.public_key():
        raise_invalid("private_key", KEY_MISMATCH_MESSAGE)


def ensure_chain_signed(leaf: x509.Certificate, issuers: Sequence[x509.Certificate], error_field: str) -> None:
    """Raise unless each certificate was signed by the next one."""
    for number, (below, issuer) in enumerate(zip([leaf, *issuers], issuers, strict=False), 1):
        try:
            below.verify_directly_issued_by(issuer)
            authority = issuer.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
            below_it = message("number {number}", number=number - 1) if number > 1 else message("the certificate")
            raise_invalid(
                error_field,
                message(
                    "Certificate {number} of the chain did not sign {below_it}. Begin with the one that did.",
                    number=number,
                    below_it=below_it,
                ),
            )
        except x509.ExtensionNotFound:
            authority = False
        if not authority:
            raise_invalid(
                error_field,
                message("Certificate {number} of the chain is not a CA certificate.", number=number),
            )
