"""A device with passkeys, in software: what a browser would answer to the options that the panel gives."""

import json
import secrets
from hashlib import sha256

import cbor2
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from webauthn.helpers import bytes_to_base64url as text

ORIGIN = "http://localhost:8000"
PRESENT, VERIFIED, WITH_KEY = 0x01, 0x04, 0x40


class Authenticator:
    def __init__(self, origin=ORIGIN, verified=True):
        self.origin = origin
        self.flags = PRESENT | (VERIFIED if verified else 0)
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.id = secrets.token_bytes(32)
        self.count = 0

    def create(self, options):
        """The credential that is made for these options, as JSON."""
        point = self.key.public_key().public_numbers()
        cose = cbor2.dumps({1: 2, 3: -7, -1: 1, -2: point.x.to_bytes(32, "big"), -3: point.y.to_bytes(32, "big")})
        attested = bytes(16) + len(self.id).to_bytes(2, "big") + self.id + cose
        data = self.data(options["rp"]["id"], self.flags | WITH_KEY) + attested
        made = {"fmt": "none", "attStmt": {}, "authData": data}
        answer = {
            "clientDataJSON": text(self.client("webauthn.create", options)),
            "attestationObject": text(cbor2.dumps(made)),
        }
        return self.credential(answer)

    def get(self, options):
        """The proof for these options, as JSON."""
        self.count += 1
        client = self.client("webauthn.get", options)
        data = self.data(options["rpId"], self.flags)
        signature = self.key.sign(data + sha256(client).digest(), ec.ECDSA(hashes.SHA256()))
        answer = {
            "clientDataJSON": text(client),
            "authenticatorData": text(data),
            "signature": text(signature),
            "userHandle": None,
        }
        return self.credential(answer)

    def data(self, host, flags):
        return sha256(host.encode()).digest() + bytes([flags]) + self.count.to_bytes(4, "big")

    def client(self, kind, options):
        said = {"type": kind, "challenge": options["challenge"], "origin": self.origin, "crossOrigin": False}
        return json.dumps(said).encode()

    def credential(self, answer):
        name = text(self.id)
        return json.dumps({"id": name, "rawId": name, "type": "public-key", "response": answer})
