"""The tags of an instance."""

from panel.core.errors import Invalid
from panel.pages.shared.area import get_instance, route, tab_url
from panel.schemas.bulk import TagsText
from panel.services import instances
from panel.web.forms import Form
from panel.web.htmx import build_action_response
from panel.web.translation import gettext as _


@route("POST", "/<instance_id>/tags", can="instances.manage")
def tag(instance_id):
    instance = get_instance(instance_id)
    form = Form(TagsText)
    if not form.submit(lambda tags: instances.set_tags(instance, tags or [])):
        raise Invalid(form.errors.get("tags") or form.errors[""])
    return build_action_response(_("Tags saved."), tab_url(instance, "settings"))
