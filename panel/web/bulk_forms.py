"""Forms of bulk actions under lists, in both areas."""

from flask import request
from marshmallow import ValidationError

from panel.core.errors import Invalid
from panel.web.forms import flatten_errors
from panel.web.translation import gettext as _


def parse_bulk_request(schema):
    """Return the validated ids, action and tag. The form always sends the tag field; it is used only for tag actions.
    Raise Invalid with one message for all errors."""
    data = {"ids": request.form.getlist("ids"), "action": request.form.get("action", "")}
    if data["action"].endswith("_tag"):
        data["tag"] = request.form.get("tag", "")
    try:
        return schema().load(data)
    except ValidationError as error:
        messages = error.normalized_messages()
        raise Invalid(_("Select at least one instance.") if not data["ids"] else flatten_errors(messages)) from None


def is_confirmed(ids, form):
    """Return whether the number of instances to destroy was typed as confirmation."""
    return form.get("typed", "").strip() == str(len(set(ids)))
