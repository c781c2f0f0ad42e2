"""Announcements and maintenance notices: the list and the form. Times are in the operator's time zone."""

from datetime import UTC, timedelta
from zoneinfo import ZoneInfo

from flask import Blueprint, url_for
from marshmallow import fields, validate

from panel.auth.browser_session import get_current_account, require_page_permission
from panel.core import clock
from panel.core.db import session
from panel.core.formatting import to_local_time
from panel.schemas.announcements import ANNOUNCEMENT_KINDS, MAX_TEXT
from panel.schemas.base import In, Name, Text
from panel.services import announcements, hypervisors, owner_emails
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry, PaletteAction
from panel.web.paging import Page
from panel.web.translation import gettext as _
from panel.web.translation import lazy_gettext

bp = Blueprint("admin_announcements", __name__, url_prefix="/admin/announcements")
READ_PERMISSION, WRITE_PERMISSION = "admin:settings:read", "admin:settings:write"
NAVIGATION = NavigationEntry(
    "customers",
    "Announcements",
    "admin_announcements.index",
    icon="info-circle",
    permission=READ_PERMISSION,
    position=90,
)
PALETTE_ACTIONS = (
    PaletteAction(
        "Add announcement", "admin_announcements.new", icon="plus", permission=WRITE_PERMISSION, position=300
    ),
)
KIND_LABELS = {"announcement": lazy_gettext("Announcement"), "maintenance": lazy_gettext("Maintenance")}
STATUS_LABELS = {"planned": lazy_gettext("Planned"), "shown": lazy_gettext("Shown"), "ended": lazy_gettext("Ended")}
FORM_TIME = "%Y-%m-%dT%H:%M"


class AnnouncementForm(In):
    kind = fields.String(required=True, validate=validate.OneOf(ANNOUNCEMENT_KINDS))
    title = Name(required=True, attribute="name", maximum=120)
    text = Text(required=True, minimum=1, maximum=MAX_TEXT, lines=True)
    starts_at = fields.NaiveDateTime(required=True)
    ends_at = fields.NaiveDateTime(required=True)
    group_id = fields.String(allow_none=True, load_default=None)
    owner = fields.String(allow_none=True, load_default=None)


@bp.get("")
@require_page_permission(READ_PERMISSION)
def index():
    labels = {"kinds": KIND_LABELS, "statuses": STATUS_LABELS}
    return render("admin/announcements/index.html", "rows", page=Page(announcements.listing()), **labels)


@bp.get("/new")
@require_page_permission(WRITE_PERMISSION)
def new():
    now = to_local_time(clock.now(), get_zone())
    times = {"starts_at": format_time(now), "ends_at": format_time(now + timedelta(days=7))}
    return form_page(Form(AnnouncementForm, initial={"kind": "announcement", **times}))


@bp.post("/new")
@require_page_permission(WRITE_PERMISSION)
def create():
    form = Form(AnnouncementForm)
    if form.submit(lambda **data: announcements.create(**resolve_form(data))):
        flash_message(_("Announcement %(name)s added.", name=form.result.name))
        return redirect_to(url_for(".index"))
    return form_page(form)


@bp.get("/<announcement_id>")
@require_page_permission(READ_PERMISSION)
def edit(announcement_id):
    row = announcements.get(announcement_id)
    initial = {name: getattr(row, name) for name in ("kind", "text", "group_id")}
    times = {name: format_time(to_local_time(getattr(row, name), get_zone())) for name in ("starts_at", "ends_at")}
    initial |= times | {"title": row.name, "owner": row.account.email if row.account else ""}
    return form_page(Form(AnnouncementForm, initial=initial), row)


@bp.post("/<announcement_id>")
@require_page_permission(WRITE_PERMISSION)
def update(announcement_id):
    row = announcements.get(announcement_id)
    form = Form(AnnouncementForm)
    if form.submit(lambda **data: announcements.update(row, **resolve_form(data))):
        flash_message(_("Announcement %(name)s saved.", name=row.name))
        return redirect_to(url_for(".index"))
    return form_page(form, row)


@bp.post("/<announcement_id>/delete")
@require_page_permission(WRITE_PERMISSION)
def delete(announcement_id):
    row = announcements.get(announcement_id)
    announcements.delete_announcement(row)
    return build_action_response(_("Announcement %(name)s deleted.", name=row.name), url_for(".index"))


def resolve_form(data):
    """Return the form's data for the service: times in UTC, and the customer's id."""
    owner = owner_emails.get_account_by_email(data.pop("owner"))
    times = {name: to_utc(data[name]) for name in ("starts_at", "ends_at")}
    return data | times | {"account_id": owner.id if owner else None, "group_id": data["group_id"] or None}


def get_zone():
    return get_current_account().timezone


def format_time(moment):
    return moment.strftime(FORM_TIME)


def to_utc(moment):
    return moment.replace(tzinfo=ZoneInfo(get_zone())).astimezone(UTC)


def form_page(form, row=None):
    if "account_id" in form.errors:
        form.errors["owner"] = form.errors.pop("account_id")
    return render(
        "admin/announcements/form.html",
        "form",
        status=form.status,
        form=form,
        announcement=row,
        kinds=list(KIND_LABELS.items()),
        locations=session.execute(hypervisors.select_group_names()).all(),
        zone=get_zone(),
    )
