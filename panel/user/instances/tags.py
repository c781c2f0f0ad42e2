"""The tags of an instance."""

from flask import url_for

from panel.auth.browser import page_can
from panel.errors import Invalid
from panel.forms import Form
from panel.htmx import did
from panel.schemas.bulk import TagsText
from panel.services import instances
from panel.user.instances import bp
from panel.user.instances.show import mine


@bp.post("/<instance_id>/tags")
@page_can("instances.manage")
def tag(instance_id):
    instance = mine(instance_id)
    form = Form(TagsText)
    if not form.submit(lambda tags: instances.set_tags(instance, tags or [])):
        raise Invalid(form.errors.get("tags") or form.errors[""])
    return did("The tags are changed.", url_for(".tab", instance_id=instance_id, tab="settings"))
