"""The key of a repository: it names chunks, and encrypts everything that a target stores."""

import base64
import binascii
import hmac
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from worker.backups.errors import Damaged, StoreError

KEY_BYTES, NONCE_BYTES = 32, 12
EXPORT_PREFIX = "panel-backup-key-1:"


class RepositoryKey:
    def __init__(self, secret: bytes) -> None:
        if len(secret) != KEY_BYTES:
            raise StoreError(f"A repository key has {KEY_BYTES} bytes.")
        self.secret = secret
        self.naming_key = hmac.digest(secret, b"chunk names", "sha256")
        self.cipher = AESGCM(hmac.digest(secret, b"encryption", "sha256"))

    @classmethod
    def generate(cls) -> "RepositoryKey":
        return cls(os.urandom(KEY_BYTES))

    @classmethod
    def from_text(cls, text: str) -> "RepositoryKey":
        """Return the key that `to_text` exported."""
        try:
            return cls(base64.b64decode(text.strip().removeprefix(EXPORT_PREFIX), validate=True))
        except binascii.Error as error:
            raise StoreError("This is not an exported repository key.") from error

    def to_text(self) -> str:
        return EXPORT_PREFIX + base64.b64encode(self.secret).decode()

    def name_chunk(self, data: bytes | bytearray) -> bytes:
        """Return the name of a chunk. Without the key nobody can tell whether a known content is stored."""
        return hmac.digest(self.naming_key, data, "sha256")

    def encrypt(self, label: bytes, data: bytes) -> bytes:
        """Encrypt. Only `decrypt` with the same label accepts the result."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self.cipher.encrypt(nonce, data, label)

    def decrypt(self, label: bytes, blob: bytes | memoryview) -> bytes:
        try:
            return self.cipher.decrypt(blob[:NONCE_BYTES], blob[NONCE_BYTES:], label)
        except (InvalidTag, ValueError) as error:
            raise Damaged("An object of the repository is damaged, or belongs to another key.") from error
