"""What the bars under lists ask for, on both sides of the panel."""

from flask import request
from marshmallow import ValidationError

from panel.core.errors import Invalid
from panel.web.forms import flatten_errors


def parse_bulk_request(schema):
    """The ids, the action and the tag, checked. The field of the tag is always sent, and counts for actions on tags."""
    sent = {"ids": request.form.getlist("ids"), "action": request.form.get("action", "")}
    if sent["action"].endswith("_tag"):
        sent["tag"] = request.form.get("tag", "")
    try:
        return schema().load(sent)
    except ValidationError as error:
        found = error.normalized_messages()
        raise Invalid("Tick at least one instance." if not sent["ids"] else flatten_errors(found)) from None


def is_confirmed(ids, sent):
    """Whether the person typed how many are to be destroyed."""
    return sent.get("typed", "").strip() == str(len(set(ids)))
