"""Blobs: how the server stores chunks and small files. They are compressed, and encrypted with the account's key."""

import binascii
import hashlib
import hmac
import os
import threading

import zstandard
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from worker.backups.errors import Damaged
from worker.backups.keys import RepositoryKey

PLAIN = bytes((66, 171, 56, 7, 190, 131, 112, 161))
COMPRESSED = bytes((49, 185, 88, 66, 111, 182, 163, 127))
ENCRYPTED = bytes((123, 103, 133, 190, 34, 45, 76, 240))
ENCRYPTED_COMPRESSED = bytes((230, 89, 27, 191, 11, 191, 216, 11))
"""The first bytes of a blob, which tell its format."""

MAGIC_BYTES, CRC_BYTES, IV_BYTES, TAG_BYTES = 8, 4, 16, 16
HEADER_BYTES = MAGIC_BYTES + CRC_BYTES
ENCRYPTED_HEADER_BYTES = HEADER_BYTES + IV_BYTES + TAG_BYTES
MAX_BLOB_BYTES = 16 * 1024**2
"""Bytes to which a blob may decompress."""

COMPRESSION_LEVEL = 1
ID_KEY_SALT, ID_KEY_ITERATIONS, KEY_BYTES = b"_id_key", 10, 32
FINGERPRINT_INPUT = hashlib.sha256(b"Proxmox Backup Encryption Key Fingerprint").digest()

THREADS = threading.local()
"""Compressors may be used by one thread only."""


class BlobKey:
    """A key as the server's own clients use it."""

    def __init__(self, key: RepositoryKey) -> None:
        self.cipher = AESGCM(key.secret)
        self.id_key = hashlib.pbkdf2_hmac("sha256", key.secret, ID_KEY_SALT, ID_KEY_ITERATIONS, KEY_BYTES)

    def compute_digest(self, data: bytes | bytearray) -> bytes:
        """Return the name of a chunk. Without the key nobody can tell whether a known content is stored."""
        digest = hashlib.sha256(data)
        digest.update(self.id_key)
        return digest.digest()

    def sign(self, data: bytes) -> str:
        return hmac.digest(self.id_key, data, "sha256").hex()

    @property
    def fingerprint(self) -> str:
        """What tells keys apart, as the server shows it."""
        return self.compute_digest(FINGERPRINT_INPUT).hex(":")

    def encode(self, data: bytes | bytearray) -> bytes:
        """Return an encrypted blob."""
        compressed = compress(data)
        magic, content = (ENCRYPTED_COMPRESSED, compressed) if len(compressed) < len(data) else (ENCRYPTED, bytes(data))
        iv = os.urandom(IV_BYTES)
        encrypted = self.cipher.encrypt(iv, content, None)
        content, tag = encrypted[:-TAG_BYTES], encrypted[-TAG_BYTES:]
        return magic + compute_crc(content) + iv + tag + content

    def decode(self, blob: bytes) -> bytes:
        """Return the content of a blob, encrypted or not. Raises `Damaged`."""
        magic = blob[:MAGIC_BYTES]
        is_encrypted = magic in (ENCRYPTED, ENCRYPTED_COMPRESSED)
        content = blob[ENCRYPTED_HEADER_BYTES if is_encrypted else HEADER_BYTES :]
        if compute_crc(content) != blob[MAGIC_BYTES:HEADER_BYTES]:
            raise Damaged("A blob of the backup server has a wrong checksum.")
        if is_encrypted:
            iv, tag = blob[HEADER_BYTES : HEADER_BYTES + IV_BYTES], blob[HEADER_BYTES + IV_BYTES :][:TAG_BYTES]
            try:
                content = self.cipher.decrypt(iv, content + tag, None)
            except (InvalidTag, ValueError) as error:
                raise Damaged("A blob of the backup server is damaged, or belongs to another key.") from error
        if magic in (COMPRESSED, ENCRYPTED_COMPRESSED):
            return decompress(content)
        if magic in (PLAIN, ENCRYPTED):
            return content
        raise Damaged("A blob of the backup server has an unknown format.")


def encode_plain(data: bytes) -> bytes:
    """Return a blob that is not encrypted, as the server must read it."""
    compressed = compress(data)
    magic, content = (COMPRESSED, compressed) if len(compressed) < len(data) else (PLAIN, data)
    return magic + compute_crc(content) + content


def compute_crc(content: bytes) -> bytes:
    return binascii.crc32(content).to_bytes(CRC_BYTES, "little")


def compress(data: bytes | bytearray) -> bytes:
    if not hasattr(THREADS, "compressor"):
        THREADS.compressor = zstandard.ZstdCompressor(level=COMPRESSION_LEVEL)
    return THREADS.compressor.compress(data)


def decompress(content: bytes) -> bytes:
    if not hasattr(THREADS, "decompressor"):
        THREADS.decompressor = zstandard.ZstdDecompressor()
    try:
        return THREADS.decompressor.decompress(content, max_output_size=MAX_BLOB_BYTES)
    except zstandard.ZstdError as error:
        raise Damaged("A blob of the backup server cannot be decompressed.") from error
