"""Forms of micro VMs: creating one, and editing one."""

from flask import request, url_for

from panel.auth.browser_session import get_current_access, get_current_actor, require_page_permission
from panel.core.db import session
from panel.core.formatting import format_duration
from panel.pages.customer.microvms import MANAGE_PERMISSION, billing_error, bp, get_own
from panel.schemas.base import Int, Name
from panel.schemas.microvms import MAX_TIMEOUT_SECONDS, MicrovmIn, MicrovmPatch
from panel.services import microvms, usage
from panel.web.forms import Form
from panel.web.htmx import flash_message, redirect_to, render
from panel.web.translation import gettext as _
from panel.web.translation import lazy_gettext

TIMEOUT_CHOICES = (
    ("", lazy_gettext("Never")),
    (300, lazy_gettext("After 5 minutes")),
    (3600, lazy_gettext("After 1 hour")),
    (86400, lazy_gettext("After 1 day")),
)
DEFAULT_TIMEOUT_SECONDS = 3600
COPIED_FIELDS = (
    "name",
    "image_id",
    "cpu_cores",
    "memory_mb",
    "disk_gb",
    "timeout_seconds",
    "on_timeout",
    "allow_internet_access",
)


class MicrovmForm(MicrovmIn):
    class Meta(MicrovmIn.Meta):
        exclude = ("tags", "metadata", "envs", "allow_out", "deny_out")


class MicrovmEditForm(MicrovmPatch):
    name = Name(required=True)
    timeout_seconds = Int(0, MAX_TIMEOUT_SECONDS, allow_none=True)
    """0 leaves it as it is."""

    class Meta(MicrovmPatch.Meta):
        exclude = ("metadata", "allow_internet_access", "allow_out", "deny_out")


@bp.get("/new")
@require_page_permission(MANAGE_PERMISSION)
def new():
    settings = microvms.settings.get(get_current_access())
    initial = {name: getattr(settings, name) for name in microvms.settings.DEFAULT_FIELDS}
    initial |= {
        "on_timeout": settings.on_timeout or "kill",
        "timeout_seconds": settings.timeout_seconds or DEFAULT_TIMEOUT_SECONDS,
    }
    if microvm_id := request.args.get("copy", "")[:36]:
        microvm = get_own(microvm_id)
        initial = {name: getattr(microvm, name) for name in COPIED_FIELDS} | {"location_id": microvm.group_id}
    elif image_id := request.args.get("image", "")[:36]:
        initial["image_id"] = image_id
    return form_page(Form(MicrovmForm, initial=initial))


@bp.post("/new")
@require_page_permission(MANAGE_PERMISSION)
def create():
    """Create a micro VM. With `preview` only render the form, with the size of the chosen image."""
    access = get_current_access()
    usage.ensure_billing_enabled(access)
    form = Form(MicrovmForm)
    if "preview" in request.form:
        form.sent = request.form
        return form_page(form)

    def create_microvm(**values):
        return microvms.create(access, actor=get_current_actor(), **microvms.settings.apply_defaults(access, values))

    if form.submit(create_microvm):
        flash_message(_("Creation of micro VM %(name)s requested.", name=form.result.name))
        return redirect_to(url_for(".show", microvm_id=form.result.id))
    return form_page(form)


def form_page(form):
    access = get_current_access()
    images = session.scalars(microvms.images.select_available(access)).all()
    locations = microvms.list_locations(access)
    context = {
        "locations": locations,
        "locations_error": microvms.locations_error(locations),
        "images": images,
        "image": next(
            (image for image in images if image.id == form.get_value("image_id")), images[0] if images else None
        ),
        "timeouts": list_timeouts(form.get_value("timeout_seconds")),
    }
    return render(
        "customer/microvms/new.html", "form", status=form.status, form=form, billing_error=billing_error(), **context
    )


def list_timeouts(seconds):
    """Return the choices of a time-out, with the chosen one if it is another."""
    text = str(seconds)
    if not text.isdecimal() or text == "0" or text in {str(value) for value, _label in TIMEOUT_CHOICES}:
        return TIMEOUT_CHOICES
    return (*TIMEOUT_CHOICES, (text, _("After %(duration)s", duration=format_duration(int(text)))))


@bp.get("/<microvm_id>/edit")
@require_page_permission(MANAGE_PERMISSION)
def edit(microvm_id):
    microvm = get_own(microvm_id)
    initial = {name: getattr(microvm, name) for name in ("name", "tags", "on_timeout")} | {"timeout_seconds": 0}
    return edit_page(microvm, Form(MicrovmEditForm, initial=initial))


@bp.post("/<microvm_id>/edit")
@require_page_permission(MANAGE_PERMISSION)
def update(microvm_id):
    microvm, form = get_own(microvm_id), Form(MicrovmEditForm)

    def update_microvm(**changes):
        if changes.get("timeout_seconds") == 0:
            del changes["timeout_seconds"]
        return microvms.update(microvm, changes, actor=get_current_actor())

    if form.submit(update_microvm):
        flash_message(_("Micro VM saved."))
        return redirect_to(url_for(".show", microvm_id=microvm_id))
    return edit_page(microvm, form)


def edit_page(microvm, form):
    timeouts = list_timeouts(form.get_value("timeout_seconds") or "")
    return render(
        "customer/microvms/edit.html", "form", status=form.status, form=form, microvm=microvm, timeouts=timeouts
    )
