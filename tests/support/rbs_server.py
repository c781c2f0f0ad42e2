"""A remote backup server with the public API and protocols of Proxmox Backup Server, and switches for faults."""

import asyncio
import contextlib
import datetime
import hashlib
import json
import ssl
import threading
from urllib.parse import parse_qsl, unquote, urlsplit

import h11
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from h2.exceptions import ProtocolError

from tests.support.rbs_datastore import BackupSession, Datastore, ReaderSession, Refused
from tests.support.rbs_http2 import Http2Session

AUTH_ID, SECRET = "panel@pbs!backups", "0199c0a8-secret"
ROLE = {"Datastore.Backup", "Datastore.Prune"}
PROTOCOLS = {"backup": "proxmox-backup-protocol-v1", "reader": "proxmox-backup-reader-protocol-v1"}


class RbsServer:
    """Serves one datastore on a thread of its own."""

    def __init__(self, directory):
        self.directory, self.datastore = directory, Datastore()
        self.tokens = {AUTH_ID: (SECRET, {"/datastore/backups": set(ROLE)})}
        """Token → its secret, and path → privileges, which are valid below it too."""
        self.requests = []
        """Method and path of each call of the API, and each request of the protocols."""
        self.delay = 0
        """Seconds before each answer."""
        self.chunks_until_cut = None
        """How many chunks are taken before the connection is cut."""
        self.is_answer_lost = False
        """Whether calls that change something are carried out, but not answered."""
        self.cut_at = None
        """The function of the API or the protocols at whose request the connection is cut."""
        self.changes = {}
        """Function → what its content becomes, as a function of it."""
        self.loop, self.writers = asyncio.new_event_loop(), set()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.server, self.port = None, 0
        self.replace_certificate()

    @property
    def config(self):
        return {
            "host": "127.0.0.1",
            "port": self.port,
            "datastore": "backups",
            "auth_id": AUTH_ID,
            "token_secret": SECRET,
            "fingerprint": self.fingerprint,
        }

    def run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(30)

    def replace_certificate(self):
        """Listen with a new certificate, on the same port."""
        certificate, self.fingerprint = make_certificate(self.directory)
        self.stop()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate)
        self.start()

    def start(self):
        """Listen, on the same port as before."""
        self.server = self.run(asyncio.start_server(self.serve, "127.0.0.1", self.port, ssl=self.context))
        self.port = self.server.sockets[0].getsockname()[1]

    def stop(self):
        """Stop listening, and end all connections."""

        async def stop():
            if self.server:
                self.server.close()
            for writer in self.writers:
                writer.transport.abort()

        self.run(stop())

    def close(self):
        self.stop()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(5)

    async def serve(self, reader, writer):
        self.writers.add(writer)
        try:
            with contextlib.suppress(ConnectionError, ssl.SSLError, ProtocolError, h11.RemoteProtocolError):
                await self.serve_request(reader, writer)
        finally:
            self.writers.discard(writer)
            writer.close()

    async def serve_request(self, reader, writer):
        protocol, request, body = h11.Connection(h11.SERVER), None, b""
        while True:
            event = protocol.next_event()
            if event is h11.NEED_DATA:
                protocol.receive_data(await reader.read(65536))
            elif isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                break
            else:
                return
        await asyncio.sleep(self.delay)
        target, headers = urlsplit(request.target.decode()), dict(request.headers)
        path, query = unquote(target.path).removeprefix("/api2/json/"), dict(parse_qsl(target.query))
        method, function = request.method.decode(), path.rpartition("/")[2]
        self.requests.append((method, path))
        if function == self.cut_at:
            return None
        try:
            owner = self.authenticate(headers.get(b"authorization", b"").decode())
            if path in PROTOCOLS:
                session = self.open_session(path, query, headers, owner)
                answer = h11.InformationalResponse(
                    status_code=101, headers=[("upgrade", PROTOCOLS[path]), ("connection", "upgrade")]
                )
                writer.write(protocol.send(answer))
                return await self.serve_session(reader, writer, session, protocol.trailing_data[0])
            values = query | (json.loads(body) if body else {})
            content = json.dumps({"data": self.call(method, path, values, owner)}).encode()
            status, content = 200, self.change_content(function, content)
            if self.is_answer_lost and method != "GET":
                return None
        except Refused as error:
            status, content = error.status, error.text.encode()
        length = [("content-length", str(len(content)))]
        writer.write(protocol.send(h11.Response(status_code=status, headers=length)))
        writer.write(protocol.send(h11.Data(content)) + protocol.send(h11.EndOfMessage()))
        await writer.drain()

    def change_content(self, function, content):
        return self.changes[function](content) if function in self.changes else content

    # --- rules

    def authenticate(self, header):
        auth_id, _, secret = header.removeprefix("PBSAPIToken=").rpartition(":")
        if auth_id not in self.tokens or self.tokens[auth_id][0] != secret:
            raise Refused("authentication failed - invalid token", 401)
        return auth_id

    def list_privileges(self, auth_id, path):
        privileges = set()
        for granted, names in self.tokens[auth_id][1].items():
            if path == granted or path.startswith(f"{granted}/"):
                privileges |= names
        return privileges

    def ensure_allowed(self, auth_id, values, *names):
        path = "/".join(filter(None, ("/datastore", values["store"], values.get("ns", ""))))
        if not self.list_privileges(auth_id, path) & set(names):
            raise Refused("permission check failed", 403)
        if values["store"] != self.datastore.name:
            raise Refused(f"no such datastore '{values['store']}'")
        if values.get("ns", "") not in self.datastore.namespaces:
            raise Refused("namespace not found", 404)

    def open_session(self, kind, query, headers, owner):
        if headers.get(b"upgrade", b"").decode() != PROTOCOLS[kind]:
            raise Refused("invalid protocol name")
        self.ensure_allowed(owner, query, "Datastore.Backup", *(["Datastore.Read"] if kind == "reader" else []))
        key = get_key(query)
        return BackupSession(self.datastore, key, owner) if kind == "backup" else ReaderSession(self.datastore, key)

    def call(self, method, path, values, owner):
        if path == "version":
            return {"version": "3.4.1", "release": "1", "repoid": "0"}
        if path == "access/permissions":
            return {values["path"]: dict.fromkeys(self.list_privileges(owner, values["path"]), 1)}
        _, _, store, function = path.split("/")
        values["store"] = store
        self.ensure_allowed(owner, values, "Datastore.Backup", "Datastore.Audit", "Datastore.Modify")
        return getattr(self, f"{method.lower()}_{function}")(values, owner)

    def get_status(self, values, owner):
        return {"total": 1000 * 1024**3, "used": 400 * 1024**3, "avail": 600 * 1024**3}

    def get_groups(self, values, owner):
        namespace, snapshots = values.get("ns", ""), self.datastore.snapshots
        groups = {key[:3] for key, value in snapshots.items() if key[0] == namespace and value.owner == owner}
        return [{"backup-type": group[1], "backup-id": group[2], "owner": owner} for group in sorted(groups)]

    def get_snapshots(self, values, owner):
        group = get_group(values)
        if not any(key[:3] == group for key in self.datastore.snapshots):
            raise Refused("unable to read group: ENOENT: No such file or directory")
        rows = []
        for key, snapshot in self.datastore.snapshots.items():
            if key[:3] == group:
                row = {"backup-type": key[1], "backup-id": key[2], "backup-time": key[3], "owner": snapshot.owner}
                row |= {"protected": snapshot.is_protected, "files": [{"filename": name} for name in snapshot.files]}
                if snapshot.verification:
                    row["verification"] = {"state": snapshot.verification, "upid": "UPID:0"}
                rows.append(row)
        return rows

    def delete_snapshots(self, values, owner):
        self.ensure_allowed(owner, values, "Datastore.Prune", "Datastore.Modify")
        self.datastore.delete(get_key(values))

    def put_protected(self, values, owner):
        self.datastore.get_snapshot(get_key(values)).is_protected = values["protected"]

    def post_verify(self, values, owner):
        self.datastore.get_snapshot(get_key(values))
        self.datastore.pending_verifications.append(get_key(values))
        return "UPID:0"

    # --- HTTP/2

    async def serve_session(self, reader, writer, session, received):
        try:
            await Http2Session(self, reader, writer, session).run(received)
        finally:
            session.close()


def get_group(values):
    return values.get("ns", ""), values["backup-type"], values["backup-id"]


def get_key(values):
    return (*get_group(values), int(values["backup-time"]))


def make_certificate(directory):
    """Return a file with a new self-signed certificate and its key, and the fingerprint."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "backup.example.com")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(
        now + datetime.timedelta(days=1)
    )
    certificate = builder.sign(key, hashes.SHA256())
    path, encoding = directory / "server.pem", serialization.Encoding.PEM
    secret = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(certificate.public_bytes(encoding) + secret)
    fingerprint = hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).digest().hex(":").upper()
    return path, fingerprint


@pytest.fixture
def rbs_server(tmp_path):
    """A server with a datastore `backups` and a token that may back up and prune."""
    server = RbsServer(tmp_path)
    yield server
    server.close()
