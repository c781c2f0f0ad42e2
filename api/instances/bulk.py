"""Tags, and one action on several instances."""

from marshmallow import fields

from api import kit
from api.instances import admin, user
from api.instances.customer import get_own_instance
from panel.core.errors import Forbidden, PartlyRefused
from panel.core.formatting import format_plural
from panel.schemas.base import describe
from panel.schemas.bulk import BulkOut, BulkRefused, TagsIn
from panel.schemas.instances import InstanceOut
from panel.services import instances
from panel.web.bulk_forms import AdminBulkIn, BulkIn

BULK_RESPONSE = kit.Done.from_dict(
    {"data": fields.Nested(BulkOut, **describe("Result for each instance."))}, name="BulkDone"
)()

REFUSED_ANSWER = {
    "description": "The action was refused for some or all instances.",
    "content": {"application/json": {"schema": BulkRefused}},
}


@user.post(
    "/instance/<instance_id>/tags",
    op="tags.set",
    can="instances.manage",
    body=TagsIn,
    out=kit.build_wrapped_schema("instance", InstanceOut),
)
def set_tags(body, instance_id):
    """Replace the tags of an instance."""
    return {"message": "Tags saved.", "instance": instances.set_tags(get_own_instance(instance_id), **body)}


@user.post(
    "/instances/bulk",
    op="bulk",
    can="instances.view",
    body=BulkIn,
    out=BULK_RESPONSE,
)
@user.doc(responses={409: REFUSED_ANSWER})
def run_bulk(body):
    """Run an action on several instances.

    The response has a result for each instance. The status is 200 if none was refused, otherwise that of the first
    refusal (a later 503 takes precedence); the action is executed for all instances that were not refused. Instances of
    other accounts are ignored. Each action requires the same permission as for a single instance.
    """
    permission = instances.ACTIONS[body["action"]].permission
    if not kit.get_current_access().has_permission(permission):
        raise Forbidden(f"Your role in the team does not permit this action: it needs {permission}.")
    lines = instances.run_bulk(actor=kit.get_current_actor(), access=kit.get_current_access(), **body)
    answer, sentence = summarize(lines)
    return {"message": raise_if_refused(lines, sentence, {"data": answer}), "data": answer}


@admin.post("/instances/bulk", op="bulk", can="admin:instances:write", body=AdminBulkIn, out=BulkOut)
@admin.doc(responses={404: REFUSED_ANSWER, 409: REFUSED_ANSWER})
def admin_run_bulk(body):
    """Run an action on several instances of any users.

    The response has a result for each instance. The status is 200 if none was refused, otherwise that of the first
    refusal (a later 503 takes precedence); the action is executed for all instances that were not refused. An unknown
    id has a result with status 404.
    """
    lines = instances.run_bulk(actor=kit.get_current_actor(), **body)
    answer, sentence = summarize(lines)
    kit.set_message(raise_if_refused(lines, sentence, answer))
    return answer


def summarize(lines):
    """Return the response body with counts, and its message."""
    answer = {**instances.count_bulk_results(lines), "results": lines}
    return answer, f"Requested for {format_plural(answer['queued'], 'instance')}, {answer['refused']} refused."


def raise_if_refused(lines, sentence, answer):
    """Return the message when nothing was refused. Otherwise raise PartlyRefused, which keeps what was done."""
    status = instances.get_bulk_status(lines)
    if status == 200:
        return sentence
    raise PartlyRefused(sentence, status=status, extra=answer)
