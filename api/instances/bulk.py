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
    {"data": fields.Nested(BulkOut, **describe("What became of each."))}, name="BulkDone"
)()

REFUSED_ANSWER = {
    "description": "Some were refused, or all of it was.",
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
    return {"message": "The tags are changed.", "instance": instances.set_tags(get_own_instance(instance_id), **body)}


@user.post(
    "/instances/bulk",
    op="bulk",
    can="instances.view",
    body=BulkIn,
    out=BULK_RESPONSE,
)
@user.doc(responses={409: REFUSED_ANSWER})
def run_bulk(body):
    """Do something with several instances.

    The answer has a line for each instance. Its status is 200 when nothing was refused, else that of the first refusal
    (a later 503 wins); what was not refused is done all the same. Instances of others are left out. Each action needs
    the permission that it needs alone.
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
    """Do something with several instances of anybody.

    The answer has a line for each instance. Its status is 200 when nothing was refused, else that of the first refusal
    (a later 503 wins); what was not refused is done all the same. An id that is not known has a line with 404.
    """
    lines = instances.run_bulk(actor=kit.get_current_actor(), **body)
    answer, sentence = summarize(lines)
    kit.set_message(raise_if_refused(lines, sentence, answer))
    return answer


def summarize(lines):
    """Return the response body with counts, and its message."""
    answer = {**instances.count_bulk_results(lines), "results": lines}
    return answer, f"{format_plural(answer['queued'], 'instance')} done, {answer['refused']} refused."


def raise_if_refused(lines, sentence, answer):
    """Return the message when nothing was refused. Otherwise raise PartlyRefused, which keeps what was done."""
    status = instances.get_bulk_status(lines)
    if status == 200:
        return sentence
    raise PartlyRefused(sentence, status=status, extra=answer)
