"""Lets pages of other origins use the sandbox API. It reads no cookies: a page needs a key, as any other program."""

from flask import request

from api.errors import CROSS_ORIGIN_HEADERS

METHODS = "GET, POST, PUT, PATCH, DELETE"
PREFLIGHT_SECONDS = 7200
"""How long browsers may remember the answer. Some forget it after two hours anyway."""


def is_preflight():
    """Return whether a browser asks what a page may send. It sends no key with this."""
    return request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers


def set_headers(response):
    response.headers.update(CROSS_ORIGIN_HEADERS)
    if is_preflight():
        response.headers["Access-Control-Allow-Methods"] = METHODS
        response.headers["Access-Control-Allow-Headers"] = request.headers.get("Access-Control-Request-Headers", "*")
        response.headers["Access-Control-Max-Age"] = str(PREFLIGHT_SECONDS)
