"""The parameters of lists of sandboxes (state, metadata, pages)."""

import base64
import binascii
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote, unquote_plus

import orjson
from flask import request

from api.sandbox.answers import LIVE_STATES, STATES_BY_WORD
from api.sandbox.kit import get_access
from panel.core.errors import Problem
from panel.models import Microvm
from panel.services import microvms

NEXT_TOKEN_HEADER = "x-next-token"
MAX_PAGE_ROWS = 100
MAX_METADATA_PAIRS = 20
NO_IMAGE_ID = "none"
"""What no image has as its id."""
DECODED_PLUS_PATTERN = re.compile(r" (\d\d:?\d\d)$")
"""The sign of a zone, which clients send as it is and which then reads as a space."""


@dataclass(frozen=True)
class ListQuery:
    filters: dict[str, Any]
    """Arguments of `microvms.select_by_start`."""
    limit: int


def parse() -> ListQuery:
    """Return the request's parameters. Raise a 400 for invalid ones."""
    args = request.args
    filters: dict[str, Any] = {
        "states": parse_states(args.getlist("state")),
        "metadata": parse_metadata(args.get("metadata", "")),
        "ascending": parse_order(args.get("order", "desc")),
    }
    if started_after := args.get("startedAfter"):
        filters["started_after"] = parse_time(started_after)
    if template := args.get("template"):
        image = microvms.images.find(template, get_access())
        filters["image_id"] = image.id if image else NO_IMAGE_ID
    if token := args.get("nextToken"):
        filters["cursor"] = decode_cursor(token)
    return ListQuery(filters, parse_limit(args.get("limit")))


def make_parameter_error(sentence: str) -> Problem:
    return Problem(sentence, status=400)


def parse_states(texts: list[str]) -> tuple[str, ...]:
    words = [word for text in texts for word in text.split(",") if word]
    if not set(words) <= STATES_BY_WORD.keys():
        raise make_parameter_error("state must be running, paused, or both with a comma.")
    return tuple(state for word in words for state in STATES_BY_WORD[word]) or LIVE_STATES


def parse_order(text: str) -> bool:
    """Return whether the oldest comes first."""
    if text not in ("asc", "desc"):
        raise make_parameter_error("order must be asc or desc.")
    return text == "asc"


def parse_limit(text: str | None) -> int:
    if text is None:
        return MAX_PAGE_ROWS
    if not re.fullmatch("[0-9]{1,9}", text) or int(text) == 0:
        raise make_parameter_error("limit must be a positive number.")
    return min(int(text), MAX_PAGE_ROWS)


def parse_time(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(DECODED_PLUS_PATTERN.sub(r"+\1", text))
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise make_parameter_error("startedAfter must be an ISO 8601 time with a zone.") from None


def parse_metadata(text: str) -> dict[str, str]:
    """Return the pairs. The SDKs encode names and values twice more than a query needs; plain ones read the same."""
    pairs = {}
    for part in text.split("&") if text else ():
        name, separator, value = (unquote(unquote_plus(piece)) for piece in part.partition("="))
        if not separator or not name or "\0" in part + name + value:
            raise make_parameter_error("metadata must be pairs like name=value, joined with &.")
        pairs[name] = value
    if len(pairs) > MAX_METADATA_PAIRS:
        raise make_parameter_error(f"At most {MAX_METADATA_PAIRS} pairs of metadata can be compared.")
    return pairs


def encode_cursor(microvm: Microvm) -> str:
    """Return the token of the page that begins after this row."""
    return base64.urlsafe_b64encode(orjson.dumps([microvm.started_at.isoformat(), microvm.id])).decode().rstrip("=")


def decode_cursor(token: str) -> tuple[datetime, str]:
    try:
        started_at, microvm_id = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        if not isinstance(microvm_id, str) or "\0" in microvm_id:
            raise ValueError
        return datetime.fromisoformat(started_at).astimezone(UTC), microvm_id
    except (ValueError, TypeError, OverflowError, binascii.Error):
        raise make_parameter_error("nextToken is not from an answer of this list.") from None
