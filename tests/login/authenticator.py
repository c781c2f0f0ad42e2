"""A software authenticator: returns the credentials that a browser would return for the panel's options."""

import json
import secrets
from hashlib import sha256

import cbor2
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from webauthn.helpers import bytes_to_base64url

ORIGIN = "http://localhost:8000"
FLAG_USER_PRESENT, FLAG_USER_VERIFIED, FLAG_CREDENTIAL_DATA = 0x01, 0x04, 0x40


class Authenticator:
    def __init__(self, origin=ORIGIN, verified=True):
        self.origin = origin
        self.flags = FLAG_USER_PRESENT | (FLAG_USER_VERIFIED if verified else 0)
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.id = secrets.token_bytes(32)
        self.count = 0

    def create(self, options):
        """Return a new credential for these options, as JSON."""
        point = self.key.public_key().public_numbers()
        cose = cbor2.dumps({1: 2, 3: -7, -1: 1, -2: point.x.to_bytes(32, "big"), -3: point.y.to_bytes(32, "big")})
        attested_data = bytes(16) + len(self.id).to_bytes(2, "big") + self.id + cose
        data = self.build_authenticator_data(options["rp"]["id"], self.flags | FLAG_CREDENTIAL_DATA) + attested_data
        attestation = {"fmt": "none", "attStmt": {}, "authData": data}
        answer = {
            "clientDataJSON": bytes_to_base64url(self.encode_client_data("webauthn.create", options)),
            "attestationObject": bytes_to_base64url(cbor2.dumps(attestation)),
        }
        return self.encode_credential(answer)

    def get(self, options):
        """Return the assertion for these options, as JSON."""
        self.count += 1
        client = self.encode_client_data("webauthn.get", options)
        data = self.build_authenticator_data(options["rpId"], self.flags)
        signature = self.key.sign(data + sha256(client).digest(), ec.ECDSA(hashes.SHA256()))
        answer = {
            "clientDataJSON": bytes_to_base64url(client),
            "authenticatorData": bytes_to_base64url(data),
            "signature": bytes_to_base64url(signature),
            "userHandle": None,
        }
        return self.encode_credential(answer)

    def build_authenticator_data(self, host, flags):
        return sha256(host.encode()).digest() + bytes([flags]) + self.count.to_bytes(4, "big")

    def encode_client_data(self, kind, options):
        client_data = {"type": kind, "challenge": options["challenge"], "origin": self.origin, "crossOrigin": False}
        return json.dumps(client_data).encode()

    def encode_credential(self, answer):
        name = bytes_to_base64url(self.id)
        return json.dumps({"id": name, "rawId": name, "type": "public-key", "response": answer})
