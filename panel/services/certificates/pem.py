"""What is in a certificate, its chain and its key, and whether the three belong together.

Every fault is an Invalid that names the field. What somebody sent is never repeated in a message: it may be a key.
"""

import re
from datetime import UTC, datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from panel.core.errors import Invalid

BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]{1,40})-----")
CURVES = {"secp256r1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521"}
SMALLEST_RSA, LARGEST_RSA = 2048, 8192
MOST_CERTIFICATES = 10
"""Of a certificate with its chain. Three is usual."""

NAME = re.compile(r"[\x21-\x7e]{1,253}")
UNSEEN = re.compile(r"[^\x20-\x7e\xa1-\ud7ff\ue000-\ufffd]")
FIRST, LAST = datetime(1950, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)
"""Moments outside cannot be shown in every time zone. A device's certificate "without an end" is one."""

NO_PEM = "This is no certificate in PEM format. It begins with -----BEGIN CERTIFICATE-----."
NO_KEY = "This is no private key in PEM format. It begins with -----BEGIN PRIVATE KEY-----."
LOCKED = "The key is protected by a passphrase. Remove that first: openssl pkey -in key.pem -out open.pem"
OTHER_KEY = "The key belongs to another certificate."
KINDS = f"Its key must be RSA with at least {SMALLEST_RSA} bits, or of the elliptic curve P-256, P-384 or P-521."


def facts(certificate, chain, private_key):
    """The columns of a certificate from its PEM texts, once all three were looked at."""
    leaf, *above = certificates(certificate, "certificate")
    if chain:
        above += certificates(chain, "chain")
    if len(above) >= MOST_CERTIFICATES:
        wrong("chain" if chain else "certificate", f"There are more than {MOST_CERTIFICATES} certificates in it.")
    try:
        found = described(leaf)
    except (ValueError, UnsupportedAlgorithm):
        wrong("certificate", "The certificate cannot be understood: something in it is malformed.")
    belongs(private_key, leaf)
    linked(leaf, above, "chain" if chain else "certificate")
    return {"certificate": certificate, "chain": chain or None, "private_key": private_key, **found}


def wrong(field, sentence):
    raise Invalid(sentence, **{field: sentence})


def certificates(text, field):
    """The certificates in the text, in its order. Anything else does not belong there, least of all a key: what is
    stored here is shown again."""
    kinds = BLOCK.findall(text)
    if any("PRIVATE KEY" in kind for kind in kinds):
        wrong(field, "There is a private key in it. Send that as private_key only.")
    if any(kind != "CERTIFICATE" for kind in kinds):
        wrong(field, NO_PEM)
    try:
        found = x509.load_pem_x509_certificates(text.encode())
    except (ValueError, UnsupportedAlgorithm):
        wrong(field, NO_PEM)
    if len(found) != len(kinds):
        wrong(field, NO_PEM)
    return found


def described(leaf):
    """What the certificate says of itself."""
    domains = names(leaf)
    if not all(NAME.fullmatch(name) for name in domains):
        raise ValueError
    digest = leaf.fingerprint(hashes.SHA256()).hex(":").upper()
    return {
        "domains": domains,
        "not_before": shown(leaf.not_valid_before_utc),
        "not_after": shown(leaf.not_valid_after_utc),
        "issuer": UNSEEN.sub("", leaf.issuer.rfc4514_string())[:255],
        "fingerprint": digest,
        "key_type": kind(leaf),
    }


def names(leaf):
    """The hosts that it is for: its alternative names, or of an old one the common name."""
    try:
        found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        common = leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return [str(each.value) for each in common if NAME.fullmatch(str(each.value))]
    hosts = found.get_values_for_type(x509.DNSName)
    return list(dict.fromkeys([*hosts, *map(str, found.get_values_for_type(x509.IPAddress))]))


def shown(moment):
    return min(max(moment, FIRST), LAST)


def kind(leaf):
    """Like `RSA 2048` or `EC P-256`: what web servers and load balancers can use."""
    key = leaf.public_key()
    if isinstance(key, rsa.RSAPublicKey) and SMALLEST_RSA <= key.key_size <= LARGEST_RSA:
        return f"RSA {key.key_size}"
    if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in CURVES:
        return f"EC {CURVES[key.curve.name]}"
    return wrong("certificate", KINDS)


def belongs(text, leaf):
    """Raises unless the text is the certificate's own private key, open."""
    try:
        key = serialization.load_pem_private_key(text.encode(), None)
    except TypeError:
        wrong("private_key", LOCKED)
    except (ValueError, UnsupportedAlgorithm):
        wrong("private_key", NO_KEY)
    if key.public_key() != leaf.public_key():
        wrong("private_key", OTHER_KEY)


def linked(leaf, above, field):
    """Raises unless each certificate was signed by the one after it."""
    for number, (below, issuer) in enumerate(zip([leaf, *above], above, strict=False), 1):
        try:
            below.verify_directly_issued_by(issuer)
            authority = issuer.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
            below_it = "the certificate" if number == 1 else f"number {number - 1}"
            wrong(field, f"Number {number} of the chain did not sign {below_it}. Begin with the one that did.")
        except x509.ExtensionNotFound:
            authority = False
        if not authority:
            wrong(field, f"Number {number} of the chain is not the certificate of an authority.")
