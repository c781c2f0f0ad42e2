"""The person's own name, company, time zone and language."""

from flask import Blueprint, url_for
from marshmallow import fields, validate

from panel.auth import permissions
from panel.auth.browser_session import get_current_account, require_page_permission
from panel.core.languages import list_language_names
from panel.schemas.base import In, Name
from panel.schemas.instances import TIME_ZONES
from panel.schemas.profile import validate_language
from panel.services import accounts
from panel.web.forms import Form
from panel.web.htmx import flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry
from panel.web.translation import gettext as _
from panel.web.translation import lazy_gettext

bp = Blueprint("profile", __name__, url_prefix="/profile")
NAVIGATION = NavigationEntry(
    "account", "Profile", "profile.show", icon="user-circle", permission=permissions.ANY_USER, position=5
)


class ProfileForm(In):
    first_name = Name(minimum=0, maximum=100, load_default="")
    last_name = Name(minimum=0, maximum=100, load_default="")
    company_name = Name(minimum=0, allow_none=True)
    timezone = fields.String(
        required=True, validate=validate.OneOf(TIME_ZONES, error=lazy_gettext("Choose a time zone like Europe/Berlin."))
    )
    language = fields.String(allow_none=True, validate=validate_language)


def profile_page(form):
    zones = [(name, name.replace("_", " ")) for name in sorted(TIME_ZONES)]
    return render(
        "customer/profile/show.html",
        "form",
        status=form.status,
        form=form,
        zones=zones,
        languages=list_language_names(),
    )


@bp.get("")
@require_page_permission(permissions.ANY_USER)
def show():
    return profile_page(Form(ProfileForm, initial=get_current_account()))


@bp.post("")
@require_page_permission(permissions.ANY_USER)
def update():
    form = Form(ProfileForm, initial=get_current_account())
    if form.submit(lambda **data: accounts.update(get_current_account(), **data)):
        flash_message(_("Profile saved."))
        return redirect_to(url_for(".show"))
    return profile_page(form)
