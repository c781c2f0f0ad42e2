"""Reading a snapshot through the server's reader protocol."""

import hashlib
from typing import Any

from worker.backups.errors import Damaged
from worker.backups.rbs.api import NOT_FOUND_STATUSES
from worker.backups.rbs.blobs import BlobKey
from worker.backups.rbs.errors import ServerFailed
from worker.backups.rbs.http2 import Http2Connection
from worker.backups.rbs.snapshots import MANIFEST_BLOB, list_digests, read_files


class SnapshotReader:
    """One snapshot. Only chunks of indexes that were read before can be read."""

    def __init__(self, connection: Http2Connection, key: BlobKey) -> None:
        self.connection, self.key = connection, key
        self.digests: set[bytes] = set()
        try:
            self.files = read_files(key.decode(self.download(MANIFEST_BLOB)), key)
        except BaseException:
            connection.close()
            raise

    def close(self) -> None:
        self.connection.close()

    def download(self, name: str) -> bytes:
        try:
            return self.connection.get("download", file_name=name)
        except ServerFailed as error:
            if error.status in NOT_FOUND_STATUSES:
                raise Damaged(f"The snapshot has no readable file {name}.") from error
            raise

    def read_blob(self, name: str) -> bytes:
        """Return the content of a blob. Raises `Damaged`."""
        blob = self.download(name)
        self.ensure_intact(name, hashlib.sha256(blob).hexdigest())
        return self.key.decode(blob)

    def read_index(self, name: str) -> list[bytes]:
        """Return the digests of an index. Raises `Damaged`."""
        digests = list_digests(self.download(name))
        self.ensure_intact(name, hashlib.sha256(b"".join(digests)).hexdigest())
        self.digests.update(digests)
        return digests

    def ensure_intact(self, name: str, checksum: str) -> None:
        file: dict[str, Any] = self.files.get(name, {})
        if file.get("csum") != checksum:
            raise Damaged(f"The file {name} of the snapshot is not the one of its manifest.")

    def read_chunk(self, digest: bytes) -> bytes:
        """Return the content of a chunk. Raises `Damaged`."""
        try:
            blob = self.connection.get("chunk", digest=digest.hex())
        except ServerFailed as error:
            if error.status in NOT_FOUND_STATUSES:
                raise Damaged(f"The chunk {digest.hex()} cannot be read.") from error
            raise
        data = self.key.decode(blob)
        if self.key.compute_digest(data) != digest:
            raise Damaged(f"The chunk {digest.hex()} has another content.")
        return data
