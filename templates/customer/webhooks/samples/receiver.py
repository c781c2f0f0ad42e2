"""Receives webhooks and refuses what is not signed. It needs nothing but Python."""

import hashlib
import hmac
import json
import os
from http.server import BaseHTTPRequestHandler, HTTPServer

SECRET = os.environ["WEBHOOK_SECRET"].encode()


def is_signed(body, signature):
    """Compares over the bytes as they came, before anything reads them, in constant time."""
    expected = "sha256=" + hmac.new(SECRET, body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected.encode(), signature.encode())


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not is_signed(body, self.headers.get("X-Signature-256", "")):
            self.send_error(401)
            return
        event = json.loads(body)["event"]
        print(event["id"], event["kind"], flush=True)  # an id that you have seen before is a repeat
        self.send_response(200)
        self.end_headers()


HTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8080"))), Receiver).serve_forever()
