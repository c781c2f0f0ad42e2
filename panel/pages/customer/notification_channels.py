"""Notification channels: the list, and forms to create, test and change one."""

from flask import Blueprint, request, url_for
from marshmallow import fields

from panel.auth.browser_session import get_current_access, require_page_permission
from panel.core.errors import Invalid
from panel.core.messages import message
from panel.schemas.base import In, Patch
from panel.schemas.notification_channels import CONFIG_BY_TYPE, NotificationChannelIn, NotificationChannelPatch
from panel.services import notification_channels
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry, PaletteAction
from panel.web.paging import Page
from panel.web.translation import gettext as _
from panel.web.translation import lazy_gettext

bp = Blueprint("notification_channels", __name__, url_prefix="/notification-channels")
NAVIGATION = NavigationEntry(
    "watch",
    "Channels",
    "notification_channels.index",
    icon="send",
    permission="monitoring.view",
    position=40,
)
PALETTE_ACTIONS = (
    PaletteAction(
        "Add notification channel",
        "notification_channels.new",
        icon="plus",
        permission="monitoring.manage",
        position=112,
    ),
)

TYPE_LABELS = {
    "mail": lazy_gettext("Mail"),
    "slack": lazy_gettext("Slack"),
    "discord": lazy_gettext("Discord"),
    "telegram": lazy_gettext("Telegram"),
    "webhook": lazy_gettext("Webhook"),
}


class ConfigForm(In):
    """The fields of all types. The service validates them."""

    webhook_url = fields.String()
    bot_token = fields.String()
    chat_id = fields.String()
    url = fields.String()
    method = fields.String()
    headers = fields.String()
    secret = fields.String()
    connect_timeout = fields.String()
    timeout = fields.String()
    verify_ssl = fields.String()


class NameForm(Patch):
    name = NotificationChannelPatch().fields["name"]


class NewForm(NotificationChannelIn):
    class Meta(NotificationChannelIn.Meta):
        exclude = ("config", "enabled", "type")


CONFIG_FIELDS = tuple(ConfigForm().fields)


def with_field_names(function, **values):
    """Call the function with the sent settings as `config`. Its errors get the names of the form's fields."""
    config = {name: values.pop(name) for name in CONFIG_FIELDS if name in values}
    if "headers" in config:
        config["headers"] = parse_headers(config["headers"])
    try:
        return function(config, **values)
    except Invalid as error:
        error.fields = {name.removeprefix("config."): texts for name, texts in error.fields.items()}
        raise


def parse_headers(text):
    """Return the headers of a text area with one `Name: value` per line. Raise Invalid for another line or a name that
    occurs twice."""
    headers = {}
    for number, line in enumerate(text.splitlines(), start=1):
        name, colon, value = line.partition(":")
        name = name.strip()
        if not line.strip():
            continue
        if not colon or not name or name.lower() in map(str.lower, headers):
            sentence = message("Line {number}: write one header, like X-Team: ops, and each name once.", number=number)
            raise Invalid(sentence, headers=sentence)
        headers[name] = value.strip()
    return headers


def get_channel(channel_id):
    return notification_channels.get(channel_id, get_current_access())


@bp.get("")
@require_page_permission("monitoring.view")
def index():
    page = Page(notification_channels.listing(get_current_access()))
    return render("customer/notification_channels/index.html", "rows", page=page, types=TYPE_LABELS)


@bp.get("/new")
@require_page_permission("monitoring.manage")
def new():
    return form_page(Form(NewForm, ConfigForm), get_type())


@bp.post("/new")
@require_page_permission("monitoring.manage")
def create():
    form = Form(NewForm, ConfigForm)
    access, type_ = get_current_access(), get_type()

    def create_channel(config, **values):
        return notification_channels.create(access, type=type_, config=config, **values)

    if form.submit(lambda **values: with_field_names(create_channel, **values)):
        flash_message(_("Channel %(name)s created. Send a test message to check that it works.", name=form.result.name))
        return redirect_to(url_for(".index"))
    return form_page(form, type_)


def get_type():
    """Return the requested type of channel."""
    type_ = request.args.get("type")
    return type_ if type_ in CONFIG_BY_TYPE else "mail"


def form_page(form, type_, channel=None):
    context = {"type": type_, "types": TYPE_LABELS, "channel": channel}
    return render("customer/notification_channels/form.html", "form", status=form.status, form=form, **context)


@bp.get("/<channel_id>")
@require_page_permission("monitoring.view")
def show(channel_id):
    channel = get_channel(channel_id)
    page = Page(notification_channels.select_notifications(channel))
    return render("customer/notification_channels/show.html", "live", channel=channel, page=page, types=TYPE_LABELS)


@bp.get("/<channel_id>/edit")
@require_page_permission("monitoring.manage")
def edit(channel_id):
    channel = get_channel(channel_id)
    return form_page(Form(NameForm, ConfigForm, initial={"name": channel.name}), channel.type, channel)


@bp.post("/<channel_id>/edit")
@require_page_permission("monitoring.manage")
def update(channel_id):
    channel = get_channel(channel_id)
    form = Form(NameForm, ConfigForm, initial={"name": channel.name})

    def update_channel(config, **values):
        """Keep the stored settings unless an address or token was entered."""
        return notification_channels.update(channel, **values, **({"config": config} if config else {}))

    if form.submit(lambda **values: with_field_names(update_channel, **values)):
        flash_message(_("%(name)s saved.", name=channel.name))
        return redirect_to(url_for(".show", channel_id=channel_id))
    return form_page(form, channel.type, channel)


@bp.post("/<channel_id>/test")
@require_page_permission("monitoring.manage")
def send_test(channel_id):
    notification_channels.send_test(get_channel(channel_id))
    return build_action_response(_("Test message requested."), url_for(".show", channel_id=channel_id), "info")


@bp.post("/<channel_id>/enable")
@require_page_permission("monitoring.manage")
def enable(channel_id):
    channel = notification_channels.update(get_channel(channel_id), enabled=True)
    return build_action_response(_("%(name)s enabled.", name=channel.name), url_for(".show", channel_id=channel_id))


@bp.post("/<channel_id>/disable")
@require_page_permission("monitoring.manage")
def disable(channel_id):
    channel = notification_channels.update(get_channel(channel_id), enabled=False)
    return build_action_response(_("%(name)s disabled.", name=channel.name), url_for(".show", channel_id=channel_id))


@bp.post("/<channel_id>/delete")
@require_page_permission("monitoring.delete")
def delete(channel_id):
    channel = get_channel(channel_id)
    notification_channels.delete(channel)
    return build_action_response(_("Channel %(name)s deleted.", name=channel.name), url_for(".index"))
