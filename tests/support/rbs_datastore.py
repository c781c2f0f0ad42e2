"""A datastore of a remote backup server: what it stores, and the rules of its backup and reader protocols."""

import binascii
import hashlib
import json
import uuid
from dataclasses import dataclass, field

import zstandard

CHUNK_BYTES = 4 * 1024**2
MAX_JSON_BYTES = 64 * 1024
MANIFEST = "index.json.blob"
PLAIN, COMPRESSED = bytes((66, 171, 56, 7, 190, 131, 112, 161)), bytes((49, 185, 88, 66, 111, 182, 163, 127))
ENCRYPTED = bytes((123, 103, 133, 190, 34, 45, 76, 240)), bytes((230, 89, 27, 191, 11, 191, 216, 11))
INDEX_MAGIC = bytes((47, 127, 65, 237, 145, 253, 15, 205))


class Refused(Exception):
    """The server refuses a request."""

    def __init__(self, text, status=400):
        super().__init__(text)
        self.text, self.status = text, status


@dataclass
class StoredSnapshot:
    owner: str
    files: dict = field(default_factory=dict)
    is_protected: bool = False
    verification: str | None = None


class Datastore:
    def __init__(self, name="backups", namespaces=("", "panel")):
        self.name, self.namespaces = name, set(namespaces)
        self.chunks, self.snapshots = {}, {}
        """Digest → blob; (namespace, type, id, time) → snapshot."""
        self.open_groups = set()
        self.pending_verifications = []
        self.is_full = False
        self.uploads = 0
        """Chunks that clients sent."""

    def list_group(self, group):
        """Return the finished snapshots of a group, the oldest first."""
        return sorted(key for key, value in self.snapshots.items() if key[:3] == group and MANIFEST in value.files)

    def get_snapshot(self, key):
        if key not in self.snapshots or MANIFEST not in self.snapshots[key].files:
            raise Refused(f"unable to load snapshot {'/'.join(map(str, key[1:]))}")
        return self.snapshots[key]

    def delete(self, key):
        if self.get_snapshot(key).is_protected:
            raise Refused("cannot remove protected snapshot")
        del self.snapshots[key]

    def run_verifications(self):
        """Verify the snapshots for which that was requested, as the server does in the background."""
        for key in self.pending_verifications:
            if key in self.snapshots:
                self.snapshots[key].verification = "ok" if self.is_intact(self.snapshots[key]) else "failed"
        self.pending_verifications.clear()

    def is_intact(self, snapshot):
        manifest = json.loads(decode_blob(snapshot.files[MANIFEST]))
        for file in manifest["files"]:
            content = snapshot.files.get(file["filename"])
            if content is None:
                return False
            is_index = file["filename"].endswith(".fidx")
            body = content[4096:] if is_index else content
            if hashlib.sha256(body).hexdigest() != file["csum"]:
                return False
            if is_index and any(not self.has_intact_chunk(digest) for digest in list_digests(content)):
                return False
        return True

    def has_intact_chunk(self, digest):
        try:
            check_blob(self.chunks[digest])
        except (KeyError, Refused):
            return False
        return True


def check_blob(blob):
    """Check the format and the checksum; the server cannot read encrypted content."""
    start = 44 if blob[:8] in ENCRYPTED else 12
    if blob[:8] not in (*ENCRYPTED, PLAIN, COMPRESSED):
        raise Refused("got unexpected magic number for DataBlob")
    if binascii.crc32(blob[start:]).to_bytes(4, "little") != blob[8:12]:
        raise Refused("Data blob has wrong CRC checksum.")


def decode_blob(blob):
    check_blob(blob)
    return zstandard.ZstdDecompressor().decompressobj().decompress(blob[12:]) if blob[:8] == COMPRESSED else blob[12:]


def encode_blob(data):
    """Return a compressed blob, of a stream without its length, as the server writes it."""
    stream = zstandard.ZstdCompressor(level=1).compressobj()
    content = stream.compress(data) + stream.flush()
    return COMPRESSED + binascii.crc32(content).to_bytes(4, "little") + content


def list_digests(index):
    return [index[start : start + 32] for start in range(4096, len(index), 32)]


@dataclass
class OpenIndex:
    name: str
    size: int
    digests: list
    count: int = 0


class BackupSession:
    """One connection of the backup protocol."""

    def __init__(self, datastore, key, owner):
        self.datastore, self.key, self.group = datastore, key, key[:3]
        others = datastore.list_group(self.group)
        if others and datastore.snapshots[others[0]].owner != owner:
            raise Refused(f"backup owner check failed ({owner} != {datastore.snapshots[others[0]].owner})")
        if self.group in datastore.open_groups:
            raise Refused("unable to acquire lock on backup group: another backup is running")
        if others and key[3] <= others[-1][3]:
            raise Refused("backup timestamp is older than last backup.")
        last = datastore.snapshots[others[-1]] if others else None
        self.last = others[-1] if last and last.verification != "failed" else None
        self.snapshot = datastore.snapshots[key] = StoredSnapshot(owner)
        datastore.open_groups.add(self.group)
        self.known, self.writers, self.next_writer, self.is_finished = {}, {}, 1, False

    def close(self):
        self.datastore.open_groups.discard(self.group)
        if not self.is_finished:
            self.datastore.snapshots.pop(self.key, None)

    def handle(self, method, path, query, body):
        return getattr(self, f"{method.lower()}_{path}")(query, body)

    def get_previous(self, query, body):
        if self.last is None:
            raise Refused("no valid previous backup")
        name = query["archive-name"]
        content = self.datastore.snapshots[self.last].files.get(name)
        if content is None:
            raise Refused(f"unable to open file {name}: No such file or directory")
        if name.endswith(".fidx"):
            self.known.update(dict.fromkeys(list_digests(content), CHUNK_BYTES))
        return content

    def post_fixed_index(self, query, body):
        size = int(query["size"])
        if not query["archive-name"].endswith(".fidx") or size < 1:
            raise Refused(f"wrong archive extension: '{query['archive-name']}'")
        number, self.next_writer = self.next_writer, self.next_writer + 1
        self.writers[number] = OpenIndex(query["archive-name"], size, [None] * -(-size // CHUNK_BYTES))
        return number

    def get_writer(self, number):
        if int(number) not in self.writers:
            raise Refused(f"fixed writer '{number}' not registered")
        return self.writers[int(number)]

    def post_fixed_chunk(self, query, body):
        self.get_writer(query["wid"])
        if len(body) != int(query["encoded-size"]):
            raise Refused("uploaded chunk has unexpected size.")
        if self.datastore.is_full:
            raise Refused("inserting chunk failed: ENOSPC: No space left on device")
        check_blob(body)
        digest, size = bytes.fromhex(query["digest"]), int(query["size"])
        if body[:8] in (PLAIN, COMPRESSED) and hashlib.sha256(decode_blob(body)).digest() != digest:
            raise Refused("detected chunk with wrong digest.")
        if not 0 < size <= CHUNK_BYTES:
            raise Refused(f"got large chunk ({size} > {CHUNK_BYTES})")
        self.datastore.uploads += 1
        self.datastore.chunks.setdefault(digest, body)
        self.known[digest] = size
        return query["digest"]

    def put_fixed_index(self, query, body):
        if len(body) > MAX_JSON_BYTES:
            raise Refused("request body too large")
        values = json.loads(body)
        index, digests, offsets = self.get_writer(values["wid"]), values["digest-list"], values["offset-list"]
        if len(digests) != len(offsets):
            raise Refused(f"offset list has wrong length ({len(offsets)} != {len(digests)})")
        for digest, offset in zip(map(bytes.fromhex, digests), offsets, strict=True):
            if digest not in self.known:
                raise Refused(f"no such chunk {digest.hex()}")
            if offset % CHUNK_BYTES or offset + self.known[digest] > index.size:
                raise Refused(f"add unaligned chunk (pos = {offset})")
            index.digests[offset // CHUNK_BYTES] = digest
            index.count += 1

    def post_fixed_close(self, query, body):
        index = self.get_writer(query["wid"])
        if index.count != int(query["chunk-count"]) or None in index.digests:
            raise Refused(f"fixed writer '{index.name}' close failed - unexpected chunk count")
        if index.size != int(query["size"]):
            raise Refused(f"fixed writer '{index.name}' close failed - unexpected file size")
        digests = b"".join(index.digests)
        checksum = hashlib.sha256(digests).digest()
        if checksum.hex() != query["csum"]:
            raise Refused(f"fixed writer '{index.name}' close failed - got unexpected checksum")
        numbers = index.size.to_bytes(8, "little") + CHUNK_BYTES.to_bytes(8, "little")
        header = INDEX_MAGIC + uuid.uuid4().bytes + self.key[3].to_bytes(8, "little") + checksum + numbers
        self.snapshot.files[index.name] = header.ljust(4096, b"\0") + digests
        del self.writers[int(query["wid"])]

    def post_blob(self, query, body):
        name = query["file-name"]
        if not name.endswith(".blob") or len(body) != int(query["encoded-size"]):
            raise Refused(f"wrong blob file extension: '{name}'")
        check_blob(body)
        # The manifest is not visible before the end.
        (self.snapshot.files if name != MANIFEST else self.__dict__)[name] = body

    def post_finish(self, query, body):
        if self.writers:
            raise Refused("found open index writer - unable to finish backup")
        if MANIFEST not in self.__dict__:
            raise Refused("unable to update manifest blob - unable to load blob")
        manifest = json.loads(decode_blob(self.__dict__[MANIFEST]))
        if (manifest["backup-type"], manifest["backup-id"], manifest["backup-time"]) != self.key[1:]:
            raise Refused("manifest belongs to another snapshot")
        stats = {"count": len(self.known), "size": 0, "compressed_size": 0, "duplicates": 0}
        manifest["unprotected"] = manifest.get("unprotected", {}) | {"chunk_upload_stats": stats}
        self.snapshot.files[MANIFEST] = encode_blob(json.dumps(manifest, indent=2).encode())
        self.is_finished = True


class ReaderSession:
    """One connection of the reader protocol."""

    def __init__(self, datastore, key):
        self.datastore, self.snapshot, self.allowed = datastore, datastore.get_snapshot(key), set()

    def close(self):
        pass

    def handle(self, method, path, query, body):
        if path == "download":
            content = self.snapshot.files.get(query["file-name"])
            if content is None:
                raise Refused(f"open file {query['file-name']} failed: not found", 404)
            if query["file-name"].endswith(".fidx"):
                self.allowed.update(list_digests(content))
            return content
        digest = bytes.fromhex(query["digest"])
        if digest not in self.allowed:
            raise Refused(f"download chunk {digest.hex()} not allowed", 401)
        if digest not in self.datastore.chunks:
            raise Refused(f"reading file {digest.hex()} failed: No such file or directory")
        return self.datastore.chunks[digest]


class MemorySnapshots:
    """Records the snapshots of one machine's points."""

    def __init__(self, namespace=""):
        self.namespace, self.snapshots = namespace, {}

    def find(self, point):
        return self.snapshots.get(point)

    def get_group(self, point):
        return self.namespace, "machine-1"

    def assign(self, point, snapshot):
        self.snapshots[point] = snapshot

    def map_points(self):
        return self.snapshots
