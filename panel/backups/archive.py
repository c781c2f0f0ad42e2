"""The encrypted file of a backup: a tar stream in authenticated chunks.

The key is derived from the passphrase with scrypt. Every chunk is encrypted with AES-256-GCM; its nonce is the chunk's
number, and the last chunk is marked, so that missing, swapped, changed or truncated chunks are detected. Each file has
a random salt, and so a different key.
"""

import io
import json
import os
import struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from panel.core.errors import Problem
from panel.schemas.installation_backups import MIN_PASSPHRASE_LENGTH

ARCHIVE_MAGIC = b"PANEL-BACKUP-1\n"
CHUNK_BYTES = 1024 * 1024
TAG_BYTES = 16
SCRYPT_COST = {"n": 2**16, "r": 8, "p": 1}
"""64 MiB and about 0.2 s for each attempt at a passphrase."""

MAX_SCRYPT_N = 2**20
MAX_HEADER_BYTES = 4096

DAMAGED_MESSAGE = "The backup is damaged, or the passphrase is wrong: a part of it does not match its seal."


def derive_key(passphrase, header):
    cost = {name: int(header[name]) for name in SCRYPT_COST}
    if not 2**14 <= cost["n"] <= MAX_SCRYPT_N or cost["r"] != 8 or cost["p"] != 1:
        raise Problem("The backup asks for an unknown key derivation.")
    return Scrypt(salt=bytes.fromhex(header["salt"]), length=32, **cost).derive(passphrase.encode())


def make_nonce(number, is_last):
    return struct.pack(">QI", number, is_last)


class Writer(io.RawIOBase):
    """A stream that encrypts what is written to it into a file. Call `finish` at the end."""

    def __init__(self, file, passphrase):
        if len(passphrase) < MIN_PASSPHRASE_LENGTH:
            raise Problem(f"The passphrase must have at least {MIN_PASSPHRASE_LENGTH} characters.")
        self.file, self.number, self.waiting = file, 0, bytearray()
        header = SCRYPT_COST | {"salt": os.urandom(16).hex(), "chunk": CHUNK_BYTES}
        self.header = ARCHIVE_MAGIC + json.dumps(header).encode() + b"\n"
        self.cipher = AESGCM(derive_key(passphrase, header))
        file.write(self.header)

    def writable(self):
        return True

    def write(self, data):
        self.waiting += data
        while len(self.waiting) > CHUNK_BYTES:  # keeps one chunk, which may be the last
            self.seal(bytes(self.waiting[:CHUNK_BYTES]), is_last=False)
            del self.waiting[:CHUNK_BYTES]
        return len(data)

    def seal(self, chunk, is_last):
        self.file.write(self.cipher.encrypt(make_nonce(self.number, is_last), chunk, self.header))
        self.number += 1

    def finish(self):
        """Write the last chunk. A file without it counts as damaged."""
        self.seal(bytes(self.waiting), is_last=True)
        self.waiting.clear()


class Reader(io.RawIOBase):
    """A stream that decrypts a file. It returns authenticated bytes only, and ends only after the chunk marked as last;
    otherwise it raises Problem."""

    def __init__(self, file, passphrase):
        self.file, self.number, self.ready, self.is_ended = file, 0, b"", False
        magic, line = file.readline(MAX_HEADER_BYTES), file.readline(MAX_HEADER_BYTES)
        if magic != ARCHIVE_MAGIC:
            raise Problem("This is not a backup of the panel.")
        try:
            header = json.loads(line)
            self.cipher, self.size = AESGCM(derive_key(passphrase, header)), CHUNK_BYTES + TAG_BYTES
        except (ValueError, KeyError, TypeError):
            raise Problem(DAMAGED_MESSAGE) from None
        self.header = magic + line
        self.ahead = file.read(self.size)

    def readable(self):
        return True

    def readinto(self, buffer):
        while not self.ready and not self.is_ended:
            self.open_chunk()
        part, self.ready = self.ready[: len(buffer)], self.ready[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)

    def open_chunk(self):
        chunk, self.ahead = self.ahead, self.file.read(self.size)
        is_last = not self.ahead
        try:
            self.ready = self.cipher.decrypt(make_nonce(self.number, is_last), chunk, self.header)
        except InvalidTag:
            raise Problem(DAMAGED_MESSAGE) from None
        self.number, self.is_ended = self.number + 1, is_last
