"""The tags of an instance."""

from panel.errors import Invalid
from panel.forms import Form
from panel.htmx import did
from panel.instance_pages.sides import at, found, page
from panel.schemas.bulk import TagsText
from panel.services import instances


@page("POST", "/<instance_id>/tags", can="instances.manage")
def tag(instance_id):
    instance = found(instance_id)
    form = Form(TagsText)
    if not form.submit(lambda tags: instances.set_tags(instance, tags or [])):
        raise Invalid(form.errors.get("tags") or form.errors[""])
    return did("The tags are changed.", at(instance, "settings"))
