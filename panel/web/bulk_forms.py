"""Requests of bulk actions, in the API and from the forms under lists."""

from flask import request
from marshmallow import ValidationError, fields, validate, validates_schema

from panel.core.errors import Invalid
from panel.core.messages import message
from panel.schemas.base import In, Text, describe
from panel.schemas.bulk import EXAMPLE_ID, Tag
from panel.services.instances.action_catalog import ACTIONS, CUSTOMER_BULK_ACTIONS, OPERATOR_BULK_ACTIONS
from panel.web.forms import flatten_errors
from panel.web.translation import gettext as _

MAX_INSTANCES_PER_REQUEST = 500


class BulkIn(In):
    ids = fields.List(
        Text(maximum=36),
        required=True,
        validate=validate.Length(1, MAX_INSTANCES_PER_REQUEST),
        **describe("The instances, each counted once.", [EXAMPLE_ID]),
    )
    action = fields.String(
        required=True, validate=validate.OneOf(CUSTOMER_BULK_ACTIONS), **describe("Action.", "start")
    )
    tag = Tag(**describe("The tag, for `add_tag` and `remove_tag`.", "prod"))

    @validates_schema
    def validate_tag(self, data, **options):
        if ("tag" in data) != ACTIONS[data["action"]].takes_tag:
            no_tag, tag_needed = message("No other action takes a tag."), message("A tag is needed.")
            raise ValidationError(no_tag if "tag" in data else tag_needed, "tag")


class AdminBulkIn(BulkIn):
    action = fields.String(
        required=True, validate=validate.OneOf(OPERATOR_BULK_ACTIONS), **describe("Action.", "suspend")
    )


def parse_bulk_request(schema):
    """Return the validated ids, action and tag. The form always sends the tag field; it is used only for tag actions.
    Raise Invalid with one message for all errors."""
    data = {"ids": request.form.getlist("ids"), "action": request.form.get("action", "")}
    if (action := ACTIONS.get(data["action"])) and action.takes_tag:
        data["tag"] = request.form.get("tag", "")
    try:
        return schema().load(data)
    except ValidationError as error:
        messages = error.normalized_messages()
        raise Invalid(_("Select at least one instance.") if not data["ids"] else flatten_errors(messages)) from None


def is_confirmed(ids, form):
    """Return whether the number of instances to destroy was typed as confirmation."""
    return form.get("typed", "").strip() == str(len(set(ids)))
