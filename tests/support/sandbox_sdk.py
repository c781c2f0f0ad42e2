"""A small server in the place of the panel's API, for SDKs that only need to find a sandbox."""

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from worker.sandbox_guest import ENVD_VERSION

API_KEY = "e2b_" + "0" * 40
SANDBOX_ID = "i7k2m9q4x8"


class ApiHandler(BaseHTTPRequestHandler):
    """Answers every POST as if a sandbox had been created or connected."""

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answer = {
            "sandboxID": SANDBOX_ID,
            "clientID": "panel",
            "templateID": "base",
            "envdVersion": ENVD_VERSION,
            "envdAccessToken": self.server.access_token,
            "domain": "not-configured.invalid",
        }
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments):
        pass


@contextlib.contextmanager
def run_api(access_token):
    server = ThreadingHTTPServer(("127.0.0.1", 0), ApiHandler)
    server.access_token = access_token
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def make_sdk_options(api, daemon_port):
    """Return the arguments that `Sandbox.connect` needs to reach the server and the daemon."""
    return {
        "api_key": API_KEY,
        "api_url": f"http://127.0.0.1:{api.server_address[1]}",
        "sandbox_url": f"http://127.0.0.1:{daemon_port}",
    }
