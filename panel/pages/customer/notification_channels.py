"""Notification channels: the list, and forms to create and change one."""

from flask import Blueprint, url_for

from panel.auth.browser_session import get_current_access, require_page_permission
from panel.schemas.notification_channels import NotificationChannelIn, NotificationChannelPatch
from panel.services import notification_channels
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry, PaletteAction
from panel.web.paging import Page
from panel.web.translation import gettext as _

bp = Blueprint("notification_channels", __name__, url_prefix="/notification-channels")
NAVIGATION = NavigationEntry(
    "watch",
    "Notification channels",
    "notification_channels.index",
    icon="box",
    permission="monitoring.view",
    position=30,
)
PALETTE_ACTIONS = (
    PaletteAction(
        "Add notification channel",
        "notification_channels.new",
        icon="plus",
        permission="monitoring.manage",
        position=101,
    ),
)


@bp.get("")
@require_page_permission("monitoring.view")
def index():
    page = Page(notification_channels.listing(get_current_access()))
    return render("customer/notification_channels/index.html", "rows", page=page)


@bp.get("/new")
@require_page_permission("monitoring.manage")
def new():
    return render("customer/notification_channels/new.html", form=Form(NotificationChannelIn))


@bp.post("/new")
@require_page_permission("monitoring.manage")
def create():
    form = Form(NotificationChannelIn)
    if form.submit(lambda **data: notification_channels.create(get_current_access(), **data)):
        flash_message(_("Notification channel %(name)s created.", name=form.result.name))
        return redirect_to(url_for(".index"))
    return render("customer/notification_channels/new.html", "form", status=form.status, form=form)


@bp.get("/<notification_channel_id>")
@require_page_permission("monitoring.view")
def edit(notification_channel_id):
    notification_channel = notification_channels.get(notification_channel_id, get_current_access())
    form = Form(NotificationChannelPatch, initial=notification_channel)
    return render("customer/notification_channels/edit.html", notification_channel=notification_channel, form=form)


@bp.post("/<notification_channel_id>")
@require_page_permission("monitoring.manage")
def update(notification_channel_id):
    notification_channel = notification_channels.get(notification_channel_id, get_current_access())
    form = Form(NotificationChannelPatch, initial=notification_channel)
    if form.submit(lambda **data: notification_channels.update(notification_channel, **data)):
        flash_message(_("Notification channel %(name)s changed.", name=form.result.name))
        return redirect_to(url_for(".index"))
    return render(
        "customer/notification_channels/edit.html",
        "form",
        status=form.status,
        notification_channel=notification_channel,
        form=form,
    )


@bp.post("/<notification_channel_id>/delete")
@require_page_permission("monitoring.delete")
def delete(notification_channel_id):
    notification_channel = notification_channels.get(notification_channel_id, get_current_access())
    notification_channels.delete(notification_channel)
    return build_action_response(
        _("Notification channel %(name)s deleted.", name=notification_channel.name), url_for(".index")
    )
