"""What the web server refuses before there is a request: too large headers, no HTTP at all. Under `/api` such a refusal
speaks the dialect of the path too (specification 7.1), as far as a path can be made out."""

import json
from urllib.parse import urlsplit

from gunicorn.http import errors, message
from gunicorn.http.parser import RequestParser
from gunicorn.util import write_nonblock
from gunicorn.workers.gthread import ThreadWorker

from api.errors import dialect

ANSWERS = {
    errors.LimitRequestLine: (414, "URI Too Long", "The address is too long."),
    errors.LimitRequestHeaders: (431, "Request Header Fields Too Large", "The headers are too large, or too many."),
    errors.ExpectationFailed: (417, "Expectation Failed", "The Expect header asks for what is not known here."),
    errors.UnsupportedTransferCoding: (501, "Not Implemented", "The body comes in a coding that is not known here."),
    errors.ParseException: (400, "Bad Request", "This is no valid HTTP request."),
}


class Request(message.Request):
    """Leaves on a refusal what the request began with."""

    def __init__(self, cfg, unreader, *others):
        begun = unreader.read()
        unreader.unread(begun)
        try:
            super().__init__(cfg, unreader, *others)
        except errors.ParseException as refusal:
            refusal.begun = begun
            raise


RequestParser.mesg_class = Request


class Worker(ThreadWorker):
    """Gunicorn's threads, which answer programs what programs read."""

    def handle_error(self, req, client, addr, exc):
        path = req.path if req else path_of(getattr(exc, "begun", b""))
        spoken = dialect(path)
        found = next((answer for kind, answer in ANSWERS.items() if isinstance(exc, kind)), None)
        if not spoken or not found:
            return super().handle_error(req, client, addr, exc)
        self.log.warning("Invalid request from ip=%s: %s", addr[0] if addr else "", exc)
        write_nonblock(client, written(spoken, *found))


def path_of(begun):
    """The path that the first line of a request names, or an empty text."""
    words = begun.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
    try:
        return urlsplit(words[1]).path if len(words) > 1 else ""
    except ValueError:
        return ""


def written(spoken, status, reason, sentence):
    """The whole answer, as bytes."""
    body = json.dumps({"success": False, "message": sentence})
    lines = [
        f"HTTP/1.1 {status} {reason}",
        "Connection: close",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
    ]
    if spoken == "admin":
        lines.append("X-Api-Envelope: v1")
    return "\r\n".join([*lines, "", body]).encode()
