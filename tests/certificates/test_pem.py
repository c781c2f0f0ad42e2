"""Validation of uploaded certificates, keys and chains: each error is a sentence at its field."""

import ipaddress

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa

from panel.core import clock
from panel.core.db import session
from panel.models import Certificate
from tests.support.certificates import encode_private_key, issue_certificate


@pytest.fixture
def get_upload_error(api_as):
    """Return a function that uploads a body and returns the field and the sentence of the error."""

    def read_error(body):
        answer = api_as("owner", "POST", "/api/certificates", json=body)
        assert answer.status_code == 422, answer.json
        assert session.query(Certificate).count() == 0
        [(field, [sentence])] = answer.json["errors"].items()
        assert "PRIVATE KEY-----\n" not in answer.text
        return field, sentence

    return read_error


@pytest.mark.parametrize(
    "certificate",
    ["x", "-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----", "-----BEGIN CERTIFICATE-----", "MIIBszCC"],
)
def test_malformed_certificates_are_refused(get_upload_error, chain, certificate):
    field, sentence = get_upload_error(chain.leaf.body(certificate=certificate))
    assert (field, "not a certificate in PEM format" in sentence) == ("certificate", True)
    field, sentence = get_upload_error(chain.leaf.body(chain=certificate))
    assert (field, "not a certificate in PEM format" in sentence) == ("chain", True)


def test_truncated_certificate_is_refused(get_upload_error, chain):
    cut = chain.leaf.pem + chain.issuing.pem[:300]
    assert get_upload_error(chain.leaf.body(certificate=cut))[0] == "certificate"
    csr = chain.leaf.pem.replace("CERTIFICATE", "CERTIFICATE REQUEST")
    assert get_upload_error(chain.leaf.body(certificate=csr))[0] == "certificate"


@pytest.mark.parametrize("field", ["certificate", "chain"])
def test_private_key_in_public_field_is_refused(get_upload_error, chain, field):
    text = chain.leaf.pem if field == "certificate" else chain.issuing.pem
    body = chain.leaf.body(**{field: text + chain.leaf.key_pem})
    where, sentence = get_upload_error(body)
    assert (where, "private key in it" in sentence) == (field, True)


def test_malformed_private_keys_are_refused(get_upload_error, chain):
    for text in ("x", chain.leaf.pem, chain.leaf.key_pem[:80]):
        field, sentence = get_upload_error(chain.leaf.body(private_key=text))
        assert (field, "not a private key in PEM format" in sentence) == ("private_key", True)


def test_private_key_with_passphrase_is_refused(get_upload_error, chain):
    locked = encode_private_key(chain.leaf.key, serialization.BestAvailableEncryption(b"secret"))
    field, sentence = get_upload_error(chain.leaf.body(private_key=locked))
    assert (field, "passphrase" in sentence) == ("private_key", True)


def test_private_key_of_other_certificate_is_refused(get_upload_error, chain, rsa_key):
    for other in (chain.issuing.key_pem, encode_private_key(rsa_key)):
        assert get_upload_error(chain.leaf.body(private_key=other)) == (
            "private_key",
            "The key belongs to another certificate.",
        )


@pytest.mark.parametrize(
    "make",
    [
        lambda: rsa.generate_private_key(65537, 1024),
        ed25519.Ed25519PrivateKey.generate,
        lambda: ec.generate_private_key(ec.SECP256K1()),
        lambda: dsa.generate_private_key(2048),
    ],
    ids=["RSA 1024", "Ed25519", "secp256k1", "DSA"],
)
def test_weak_and_unsupported_keys_are_refused(get_upload_error, make):
    key = make()
    signed = {"signed": None} if isinstance(key, ed25519.Ed25519PrivateKey) else {}
    field, sentence = get_upload_error(issue_certificate(key=key, **signed).body())
    assert (field, "at least 2048 bits" in sentence) == ("certificate", True)


def test_rsa_and_ec_keys_are_accepted(upload_certificate, rsa_key):
    old = serialization.PrivateFormat.TraditionalOpenSSL
    assert upload_certificate(issue_certificate(key=rsa_key))["key_type"] == "RSA 2048"
    for curve, name in ((ec.SECP256R1(), "P-256"), (ec.SECP384R1(), "P-384"), (ec.SECP521R1(), "P-521")):
        certificate = issue_certificate(key=ec.generate_private_key(curve))
        assert upload_certificate(certificate)["key_type"] == f"EC {name}"
        assert (
            upload_certificate(certificate, private_key=encode_private_key(certificate.key, form=old))["key_type"]
            == f"EC {name}"
        )
        parameters = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
        assert (
            upload_certificate(certificate, private_key=parameters + encode_private_key(certificate.key, form=old))[
                "key_type"
            ]
            == f"EC {name}"
        )


def test_chain_must_be_in_signing_order(get_upload_error, upload_certificate, chain):
    field, sentence = get_upload_error(chain.leaf.body(chain.root))
    assert (field, "Certificate 1 of the chain did not sign the certificate" in sentence) == ("chain", True)
    field, sentence = get_upload_error(chain.leaf.body(chain.root, chain.issuing))
    assert field == "chain"
    field, sentence = get_upload_error(chain.leaf.body(chain.issuing, chain.leaf))
    assert (field, "Certificate 2 of the chain did not sign number 1" in sentence) == ("chain", True)
    for above in ((), (chain.issuing,), (chain.issuing, chain.root)):
        assert upload_certificate(chain.leaf, *above)["status"] == "active"


def test_chain_issuer_with_same_name_and_other_key_is_refused(get_upload_error, chain):
    other = issue_certificate(None, ca=True, name="Issuing")
    assert get_upload_error(chain.leaf.body(other))[0] == "chain"


@pytest.mark.parametrize("ca", [False, None])
def test_chain_issuer_must_be_ca(get_upload_error, ca):
    above = issue_certificate(None, ca=ca, name="Not a CA")
    field, sentence = get_upload_error(issue_certificate(by=above).body(above))
    assert (field, "CA certificate" in sentence) == ("chain", True)


def test_chain_in_certificate_field_is_accepted(api_as, upload_certificate, chain):
    """Other tools write certificate and chain to one file."""
    row = upload_certificate(chain.leaf, certificate=chain.leaf.pem + chain.issuing.pem)
    assert (row["certificate"], row["chain"]) == (chain.leaf.pem + chain.issuing.pem, None)
    assert row["domains"][0] == "shop.example.com"
    answer = api_as(
        "owner", "POST", "/api/certificates", json=chain.leaf.body(certificate=chain.leaf.pem + chain.root.pem)
    )
    assert (answer.status_code, answer.json["errors"].keys()) == (422, {"certificate"})


def test_pem_texts_have_maximum_length(get_upload_error, chain):
    assert get_upload_error(chain.leaf.body(certificate=chain.leaf.pem * 200))[0] == "certificate"
    assert get_upload_error(chain.leaf.body(chain=chain.issuing.pem * 200))[0] == "chain"
    assert get_upload_error(chain.leaf.body(private_key=chain.leaf.key_pem * 200))[0] == "private_key"
    assert "more than 10" in get_upload_error(chain.leaf.body(chain=chain.issuing.pem * 11))[1]


def test_domains_are_read_from_certificate(upload_certificate):
    hosts = ("*.example.com", "example.com", "example.com", x509.IPAddress(ipaddress.ip_address("192.0.2.1")))
    assert upload_certificate(issue_certificate(hosts))["domains"] == ["*.example.com", "example.com", "192.0.2.1"]
    assert upload_certificate(issue_certificate(None, name="old.example.com"))["domains"] == ["old.example.com"]
    nameless = upload_certificate(issue_certificate(None, name="Nobody at home"))
    assert (nameless["domains"], nameless["name"]) == ([], "Certificate")


@pytest.mark.parametrize("name", ["a\0b.example.com", "a b.example.com", "<b>\n", "x" * 254])
def test_malformed_domain_names_are_refused(get_upload_error, name):
    field, sentence = get_upload_error(issue_certificate((name,)).body())
    assert (field, "malformed" in sentence) == ("certificate", True)


def test_page_of_certificate_with_maximum_expiry_date(upload_certificate, browser_as, cast):
    """Some devices have certificates that expire at the end of the year 9999."""
    cast.owner.timezone = "Pacific/Kiritimati"
    session.commit()
    row = upload_certificate(
        issue_certificate(days=clock.now().replace(year=9999, month=12, day=31, hour=23) - clock.now())
    )
    assert row["status"] == "active"
    assert browser_as("owner").get(f"/certificates/{row['id']}").status_code == 200
