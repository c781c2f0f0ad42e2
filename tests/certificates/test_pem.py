"""What is no certificate, no key or no chain: each fault is told at its field, in a sentence."""

import ipaddress

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa

from panel.core import clock
from panel.core.db import session
from panel.models import Certificate
from tests.certificates.conftest import issue_certificate, to_key_pem


@pytest.fixture
def refused_with(api_as):
    """The field and the sentence that an upload is refused with."""

    def refused(body):
        answer = api_as("owner", "POST", "/api/certificates", json=body)
        assert answer.status_code == 422, answer.json
        assert session.query(Certificate).count() == 0
        [(field, [sentence])] = answer.json["errors"].items()
        assert "PRIVATE KEY-----\n" not in answer.text
        return field, sentence

    return refused


@pytest.mark.parametrize(
    "certificate",
    ["x", "-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----", "-----BEGIN CERTIFICATE-----", "MIIBszCC"],
)
def test_malformed_certificates_are_refused(refused_with, chain, certificate):
    field, sentence = refused_with(chain.leaf.body(certificate=certificate))
    assert (field, "not a certificate in PEM format" in sentence) == ("certificate", True)
    field, sentence = refused_with(chain.leaf.body(chain=certificate))
    assert (field, "not a certificate in PEM format" in sentence) == ("chain", True)


def test_a_certificate_that_was_cut_off(refused_with, chain):
    cut = chain.leaf.pem + chain.issuing.pem[:300]
    assert refused_with(chain.leaf.body(certificate=cut))[0] == "certificate"
    csr = chain.leaf.pem.replace("CERTIFICATE", "CERTIFICATE REQUEST")
    assert refused_with(chain.leaf.body(certificate=csr))[0] == "certificate"


@pytest.mark.parametrize("field", ["certificate", "chain"])
def test_a_key_where_it_would_be_shown_again(refused_with, chain, field):
    text = chain.leaf.pem if field == "certificate" else chain.issuing.pem
    body = chain.leaf.body(**{field: text + chain.leaf.key_pem})
    where, sentence = refused_with(body)
    assert (where, "private key in it" in sentence) == (field, True)


def test_malformed_keys_are_refused(refused_with, chain):
    for text in ("x", chain.leaf.pem, chain.leaf.key_pem[:80]):
        field, sentence = refused_with(chain.leaf.body(private_key=text))
        assert (field, "not a private key in PEM format" in sentence) == ("private_key", True)


def test_a_key_with_a_passphrase(refused_with, chain):
    locked = to_key_pem(chain.leaf.key, serialization.BestAvailableEncryption(b"secret"))
    field, sentence = refused_with(chain.leaf.body(private_key=locked))
    assert (field, "passphrase" in sentence) == ("private_key", True)


def test_the_key_of_another_certificate(refused_with, chain, rsa_key):
    for other in (chain.issuing.key_pem, to_key_pem(rsa_key)):
        assert refused_with(chain.leaf.body(private_key=other)) == (
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
def test_keys_that_are_too_weak_or_unusual(refused_with, make):
    key = make()
    signed = {"signed": None} if isinstance(key, ed25519.Ed25519PrivateKey) else {}
    field, sentence = refused_with(issue_certificate(key=key, **signed).body())
    assert (field, "at least 2048 bits" in sentence) == ("certificate", True)


def test_the_usual_keys_in_every_form(upload, rsa_key):
    old = serialization.PrivateFormat.TraditionalOpenSSL
    assert upload(issue_certificate(key=rsa_key))["key_type"] == "RSA 2048"
    for curve, name in ((ec.SECP256R1(), "P-256"), (ec.SECP384R1(), "P-384"), (ec.SECP521R1(), "P-521")):
        each = issue_certificate(key=ec.generate_private_key(curve))
        assert upload(each)["key_type"] == f"EC {name}"
        assert upload(each, private_key=to_key_pem(each.key, form=old))["key_type"] == f"EC {name}"
        parameters = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
        assert upload(each, private_key=parameters + to_key_pem(each.key, form=old))["key_type"] == f"EC {name}"


def test_a_chain_leads_up_step_by_step(refused_with, upload, chain):
    field, sentence = refused_with(chain.leaf.body(chain.root))
    assert (field, "Certificate 1 of the chain did not sign the certificate" in sentence) == ("chain", True)
    field, sentence = refused_with(chain.leaf.body(chain.root, chain.issuing))
    assert field == "chain"
    field, sentence = refused_with(chain.leaf.body(chain.issuing, chain.leaf))
    assert (field, "Certificate 2 of the chain did not sign number 1" in sentence) == ("chain", True)
    for above in ((), (chain.issuing,), (chain.issuing, chain.root)):
        assert upload(chain.leaf, *above)["status"] == "active"


def test_one_who_only_has_the_same_name_signed_nothing(refused_with, chain):
    other = issue_certificate(None, ca=True, name="Issuing")
    assert refused_with(chain.leaf.body(other))[0] == "chain"


@pytest.mark.parametrize("ca", [False, None])
def test_only_an_authority_signs(refused_with, ca):
    above = issue_certificate(None, ca=ca, name="No authority")
    field, sentence = refused_with(issue_certificate(by=above).body(above))
    assert (field, "CA certificate" in sentence) == ("chain", True)


def test_a_chain_below_the_certificate_in_one_text(api_as, upload, chain):
    """As other tools write it: certificate and chain in one file."""
    row = upload(chain.leaf, certificate=chain.leaf.pem + chain.issuing.pem)
    assert (row["certificate"], row["chain"]) == (chain.leaf.pem + chain.issuing.pem, None)
    assert row["domains"][0] == "shop.example.com"
    answer = api_as(
        "owner", "POST", "/api/certificates", json=chain.leaf.body(certificate=chain.leaf.pem + chain.root.pem)
    )
    assert (answer.status_code, answer.json["errors"].keys()) == (422, {"certificate"})


def test_pem_texts_have_maximum_length(refused_with, chain):
    assert refused_with(chain.leaf.body(certificate=chain.leaf.pem * 200))[0] == "certificate"
    assert refused_with(chain.leaf.body(chain=chain.issuing.pem * 200))[0] == "chain"
    assert refused_with(chain.leaf.body(private_key=chain.leaf.key_pem * 200))[0] == "private_key"
    assert "more than 10" in refused_with(chain.leaf.body(chain=chain.issuing.pem * 11))[1]


def test_the_names_are_those_that_the_certificate_says(upload):
    hosts = ("*.example.com", "example.com", "example.com", x509.IPAddress(ipaddress.ip_address("192.0.2.1")))
    assert upload(issue_certificate(hosts))["domains"] == ["*.example.com", "example.com", "192.0.2.1"]
    assert upload(issue_certificate(None, name="old.example.com"))["domains"] == ["old.example.com"]
    nameless = upload(issue_certificate(None, name="Nobody at home"))
    assert (nameless["domains"], nameless["name"]) == ([], "Certificate")


@pytest.mark.parametrize("name", ["a\0b.example.com", "a b.example.com", "<b>\n", "x" * 254])
def test_malformed_domain_names_are_refused(refused_with, name):
    field, sentence = refused_with(issue_certificate((name,)).body())
    assert (field, "malformed" in sentence) == ("certificate", True)


def test_a_certificate_without_an_end_can_be_looked_at(upload, browser_as, cast):
    """Devices have such: the last moment that there is."""
    cast.owner.timezone = "Pacific/Kiritimati"
    session.commit()
    row = upload(issue_certificate(days=clock.now().replace(year=9999, month=12, day=31, hour=23) - clock.now()))
    assert row["status"] == "active"
    assert browser_as("owner").get(f"/certificates/{row['id']}").status_code == 200
