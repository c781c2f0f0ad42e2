"""An HTTPS server from which nodes download files, with a certificate of the tests' own authority."""

import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.support.webhook_receiver import CertificateAuthority


class FileServer:
    """`files` maps a path to bytes, a status, or a function of the handler. `requested_paths`: of GET requests."""

    def __init__(self, certificate, host="127.0.0.1"):
        self.files, self.requested_paths = {}, []
        file_server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self):
                self.reply(b"")

            def do_GET(self):
                file_server.requested_paths.append(self.path)
                self.reply()

            def reply(self, body_sent=None):
                content = file_server.files.get(self.path, 404)
                if callable(content):
                    return content(self)
                body = content if isinstance(content, bytes) else b""
                self.send_response(200 if isinstance(content, bytes) else content)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body if body_sent is None else body_sent)

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def get_request(self):
                connection, address = super().get_request()
                wrapped = file_server.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
                return wrapped, address

            def handle_error(self, *_):
                pass

        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate)
        self.server = Server((host, 0), Handler)
        self.host, self.port = host, self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def url(self, path="/disc.iso"):
        return f"https://{self.host}:{self.port}{path}"

    def put(self, path="/disc.iso", content=b"disc" * 1000):
        self.files[path] = content
        return self.url(path)

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(scope="session")
def file_server_authority():
    return CertificateAuthority()


@pytest.fixture(scope="session")
def file_server_certificate(file_server_authority, tmp_path_factory):
    return file_server_authority.issue(tmp_path_factory.mktemp("file_server"))


@pytest.fixture(scope="module")
def standalone_file_server(file_server_certificate):
    """A file server for panels that run as separate processes."""
    server = FileServer(file_server_certificate)
    yield server
    server.close()


@pytest.fixture
def file_server(file_server_certificate, file_server_authority, change_config):
    """A file server for the panel in this process, which accepts its loopback address and trusts its certificate."""
    change_config(webhook_allowed_networks="127.0.0.0/8", webhook_ca=file_server_authority.pem)
    server = FileServer(file_server_certificate)
    yield server
    server.close()
