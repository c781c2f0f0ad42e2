"""Certificates that tests issue themselves."""

from typing import NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.certificates import IssuedCertificate, issue_certificate


class Chain(NamedTuple):
    leaf: IssuedCertificate
    issuing: IssuedCertificate
    root: IssuedCertificate


@pytest.fixture(scope="session")
def chain():
    """A root certificate, an intermediate one, and a leaf."""
    root = issue_certificate(None, ca=True, name="Root", days=3000)
    issuing = issue_certificate(None, by=root, ca=True, name="Issuing", days=1000)
    return Chain(issue_certificate(("shop.example.com", "www.example.com"), by=issuing), issuing, root)


@pytest.fixture(scope="session")
def rsa_key():
    return rsa.generate_private_key(65537, 2048)


@pytest.fixture
def upload_certificate(api_as):
    """Return a function that uploads a certificate and returns its row, or the body of the error."""

    def upload_certificate(issued, *above, caller="owner", **fields):
        answer = api_as(caller, "POST", "/api/certificates", json=issued.body(*above, **fields))
        return answer.json["certificate"] if answer.status_code == 200 else answer.json

    return upload_certificate
