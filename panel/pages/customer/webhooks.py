"""Webhooks: subscriptions, their deliveries and the receivers' answers."""

import secrets
from functools import cache

from flask import Blueprint, request, url_for
from werkzeug.datastructures import MultiDict

from panel.auth.browser_session import get_current_access, require_page_permission
from panel.core.config import ROOT
from panel.core.db import Model
from panel.core.errors import NotFound
from panel.core.messages import message
from panel.schemas.webhooks import (
    ALL_KINDS,
    DELIVERY_STATUSES,
    EVENT_KIND_GROUPS,
    EVENT_KINDS,
    TestIn,
    WebhookIn,
    WebhookPatch,
)
from panel.services.webhooks import rendering, subscriptions
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry
from panel.web.paging import Page
from panel.web.translation import gettext as _
from panel.web.translation import translate

bp = Blueprint("webhooks", __name__, url_prefix="/webhooks")
NAVIGATION = NavigationEntry(
    "account", "Webhooks", "webhooks.index", icon="webhook", permission="webhooks.view", position=50
)

RECEIVER_SAMPLES = {
    "python": ("Python", "receiver.py", "python3 receiver.py"),
    "node": ("Node.js", "receiver.mjs", "node receiver.mjs"),
    "php": ("PHP", "receiver.php", "php -S 127.0.0.1:8080 receiver.php"),
    "go": ("Go", "receiver.go", "go run receiver.go"),
}
"""Samples of receivers that verify signatures: {key: (language, file, command)}"""


class NewForm(WebhookIn):
    class Meta(WebhookIn.Meta):
        exclude = ("cluster_filter", "enabled")


class EditForm(WebhookPatch):
    class Meta(WebhookPatch.Meta):
        exclude = ("cluster_filter", "enabled")


@cache
def group_event_kinds():
    """Return {group: event kinds} for the form: only kinds of resources that have a table. The API accepts all kinds
    (WHK-02)."""
    possible = [kind for kind in EVENT_KINDS.values() if f"{kind.resource}s" in Model.metadata.tables]
    by_group = {
        group: [kind for kind in possible if kind.kind.startswith(begins)]
        for group, begins in EVENT_KIND_GROUPS.items()
    }
    return {group: kinds for group, kinds in by_group.items() if kinds}


@cache
def read_sample(language):
    return (ROOT / "templates" / "customer" / "webhooks" / "samples" / RECEIVER_SAMPLES[language][1]).read_text()


@bp.get("")
@require_page_permission("webhooks.view")
def index():
    return render("customer/webhooks/index.html", "rows", page=Page(subscriptions.listing(get_current_access())))


@bp.get("/new")
@require_page_permission("webhooks.manage")
def new():
    return form_page(Form(NewForm))


@bp.post("/new")
@require_page_permission("webhooks.manage")
def create():
    """Create a subscription. The form's `fill` buttons, which work without JavaScript, only fill in fields."""
    form = Form(NewForm)
    if "fill" in request.form:
        form.sent = fill_form(request.form)
    elif form.submit(lambda **values: subscriptions.create(get_current_access(), **values)):
        flash_message(_("Webhook %(name)s created. Send a test event to check that it works.", name=form.result.name))
        return redirect_to(url_for(".show", subscription_id=form.result.id))
    return form_page(form)


@bp.get("/<subscription_id>/edit")
@require_page_permission("webhooks.view")
def edit(subscription_id):
    subscription = subscriptions.get(subscription_id, get_current_access())
    initial = {"name": subscription.name, "url": subscription.url, "event_kinds": subscription.event_kinds}
    return form_page(Form(EditForm, initial=initial), subscription)


@bp.post("/<subscription_id>/edit")
@require_page_permission("webhooks.manage")
def update(subscription_id):
    subscription = subscriptions.get(subscription_id, get_current_access())
    form = Form(EditForm)
    if "fill" in request.form:
        form.sent = fill_form(request.form)
    elif form.submit(lambda **changes: subscriptions.update(subscription, get_current_access(), **changes)):
        flash_message(_("%(name)s saved.", name=subscription.name))
        return redirect_to(url_for(".show", subscription_id=subscription.id))
    return form_page(form, subscription)


def form_page(form, subscription=None):
    is_new_secret = form.sent is not None and form.sent.get("fill") == "secret"
    context = {
        "subscription": subscription,
        "groups": group_event_kinds(),
        "all_kinds_value": ALL_KINDS,
        "is_new_secret": is_new_secret,
    }
    return render("customer/webhooks/form.html", "form", status=form.status, form=form, **context)


def fill_form(form_values):
    """Return the form values with those of a `fill` button: a new secret, or all kinds of a group."""
    action, _separator, group = form_values["fill"].partition(":")
    filled = MultiDict(form_values)
    if action == "secret":
        filled["secret"] = secrets.token_hex(32)
    if action == "group" and group in group_event_kinds():
        group_kinds = [kind.kind for kind in group_event_kinds()[group]]
        selected_kinds = form_values.getlist("event_kinds")
        remaining = [kind for kind in selected_kinds if kind not in group_kinds]
        filled.setlist("event_kinds", remaining if set(group_kinds) <= set(selected_kinds) else remaining + group_kinds)
    return filled


@bp.get("/verify")
@require_page_permission("webhooks.view")
def verify():
    """Show how a receiver verifies the signature of a delivery."""
    language = request.args.get("language", "python")
    if language not in RECEIVER_SAMPLES:
        raise NotFound(_("No example in this language."))
    context = {"language": language, "samples": RECEIVER_SAMPLES, "code": read_sample(language)}
    return render("customer/webhooks/verify.html", **context)


@bp.get("/<subscription_id>")
@require_page_permission("webhooks.view")
def show(subscription_id):
    return show_page(subscription_id, Form(TestIn, initial={"kind": "instance.created"}))


@bp.post("/<subscription_id>/test")
@require_page_permission("webhooks.manage")
def send_test(subscription_id):
    subscription = subscriptions.get(subscription_id, get_current_access())
    form = Form(TestIn)
    if form.submit(lambda kind: subscriptions.send_test(subscription, kind)):
        return build_action_response(
            _("Test event requested."), url_for(".show", subscription_id=subscription_id), "info"
        )
    return show_page(subscription_id, form)


def show_page(subscription_id, form):
    subscription = subscriptions.get(subscription_id, get_current_access())
    status = request.args.get("status")
    page = Page(subscriptions.select_deliveries(subscription, status if status in DELIVERY_STATUSES else None))
    context = {
        "subscription": subscription,
        "page": page,
        "form": form,
        "groups": group_event_kinds(),
        "redelivery_error": subscriptions.redelivery_error,
    }
    return render("customer/webhooks/show.html", "live", status=form.status, **context)


@bp.post("/<subscription_id>/enable")
@require_page_permission("webhooks.manage")
def enable(subscription_id):
    return set_enabled(subscription_id, True, message("{name} enabled. Events that happened meanwhile are not sent."))


@bp.post("/<subscription_id>/disable")
@require_page_permission("webhooks.manage")
def disable(subscription_id):
    return set_enabled(subscription_id, False, message("{name} disabled. Deliveries in progress are still sent."))


def set_enabled(subscription_id, enabled, done_message):
    subscription = subscriptions.get(subscription_id, get_current_access())
    subscriptions.update(subscription, get_current_access(), enabled=enabled)
    text = translate(done_message.format(name=subscription.name))
    return build_action_response(text, url_for(".show", subscription_id=subscription_id))


@bp.post("/<subscription_id>/delete")
@require_page_permission("webhooks.delete")
def delete(subscription_id):
    subscription = subscriptions.get(subscription_id, get_current_access())
    subscriptions.delete(subscription)
    if "leave" not in request.form:
        return build_action_response(_("%(name)s deleted.", name=subscription.name), url_for(".index"))
    flash_message(_("%(name)s deleted.", name=subscription.name))
    return redirect_to(url_for(".index"))


@bp.get("/<subscription_id>/deliveries/<delivery_id>")
@require_page_permission("webhooks.view")
def delivery(subscription_id, delivery_id):
    subscription = subscriptions.get(subscription_id, get_current_access())
    row = subscriptions.get_delivery(subscription, delivery_id)
    context = {"subscription": subscription, "delivery": row, "redelivery_error": subscriptions.redelivery_error}
    request_text, attempts = rendering.render_request(subscription, row), rendering.render_attempts(subscription, row)
    return render("customer/webhooks/delivery.html", "live", sent_request=request_text, attempts=attempts, **context)


@bp.post("/<subscription_id>/deliveries/<delivery_id>/redeliver")
@require_page_permission("webhooks.manage")
def redeliver(subscription_id, delivery_id):
    subscription = subscriptions.get(subscription_id, get_current_access())
    subscriptions.redeliver(subscription, subscriptions.get_delivery(subscription, delivery_id))
    address = url_for(".delivery", subscription_id=subscription_id, delivery_id=delivery_id)
    return build_action_response(_("Delivery requested."), address, "info")
