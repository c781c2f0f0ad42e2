"""Run Pebble, the ACME test server of Let's Encrypt, with a DNS server that resolves every name to this machine."""

import json
import os
import subprocess
import urllib.error
import urllib.request
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import NamedTuple

from tests.support.ports import find_free_port
from tests.support.waiting import wait_until
from tests.support.webhook_receiver import CertificateAuthority

PANEL_ADDRESS = "127.0.0.1"
"""The address of the panel's web server, to which every name resolves by default."""

FOREIGN_ADDRESS = "127.0.0.2"
"""The address of a web server that is not the panel's, at the same port."""


class Pebble(NamedTuple):
    directory_url: str
    """The URL of its ACME directory."""
    port: int
    """The port of HTTP challenges, in place of port 80."""
    ca_pem: str
    """The CA certificate of its HTTPS server."""
    dns_management_url: str
    """The URL of the API that sets DNS records."""

    def set_address(self, host, address):
        """Make the host name resolve to the address."""
        for action, more in (("clear-a", {}), ("add-a", {"addresses": [address]})):
            body = json.dumps({"host": host, **more}).encode()
            urllib.request.urlopen(f"{self.dns_management_url}/{action}", body, timeout=30).close()


@contextmanager
def run_pebble(directory):
    """Run Pebble and its DNS server until the block ends."""
    own, dns, names, acme, management = CertificateAuthority(), *(find_free_port() for _ in range(4))
    certificate = str(own.issue(directory))
    pebble = Pebble(f"https://127.0.0.1:{acme}/dir", find_free_port(), own.pem, f"http://127.0.0.1:{names}")
    settings = {
        "listenAddress": f"127.0.0.1:{acme}",
        "managementListenAddress": f"127.0.0.1:{management}",
        "certificate": certificate,
        "privateKey": certificate,
        "httpPort": pebble.port,
        "tlsPort": find_free_port(),
        "ocspResponderURL": "",
        "externalAccountBindingRequired": False,
        "certificateValidityPeriod": 90 * 24 * 3600,
    }
    (directory / "pebble.json").write_text(json.dumps({"pebble": settings}))
    servers = ("http01", "https01", "tlsalpn01")
    resolver = ["pebble-challtestsrv", "-dns01", f"127.0.0.1:{dns}", "-management", f"127.0.0.1:{names}"]
    resolver += [
        "-defaultIPv4",
        PANEL_ADDRESS,
        "-defaultIPv6",
        "",
        *(word for server in servers for word in (f"-{server}", "")),
    ]
    authority = ["pebble", "-config", str(directory / "pebble.json"), "-dnsserver", f"127.0.0.1:{dns}", "-strict"]
    with ExitStack() as ends:
        for command in (resolver, authority):
            ends.callback(stop_process, start_process(command, directory))
        wait_until(lambda: "ACME directory available" in read_log(directory, "pebble"), "Pebble")
        wait_until(lambda: is_answering(pebble.dns_management_url), "Pebble's DNS")
        yield pebble


def start_process(text, directory):
    # No random delays, no rejected nonces, no reuse of authorizations.
    settings = {"PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": "0", "PEBBLE_AUTHZREUSE": "0"}
    with (directory / f"{text[0]}.log").open("w") as output:
        return subprocess.Popen(text, env=os.environ | settings, stdout=output, stderr=output)


def stop_process(process):
    process.kill()
    process.wait()


def read_log(directory, name):
    return Path(directory, f"{name}.log").read_text()


def is_answering(url):
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


@contextmanager
def run_web_server(port, reply):
    """Run a web server at the foreign address. `reply` is called with the handler of each request."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            reply(self)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer((FOREIGN_ADDRESS, port), Handler)
    Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def respond_with_text(text):
    def reply(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text.encode())

    return reply


def redirect_to(url):
    def reply(handler):
        handler.send_response(302)
        handler.send_header("Location", url + handler.path)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return reply
