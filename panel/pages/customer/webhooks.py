"""Webhooks: which addresses are told of events, what was sent to them and what they answered."""

import secrets
from functools import cache

from flask import Blueprint, request, url_for
from werkzeug.datastructures import MultiDict

from panel.auth.browser_session import current_access, require_page_permission
from panel.core.config import ROOT
from panel.core.db import Model
from panel.core.errors import NotFound
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
from panel.web.htmx import action_done, flash_message, redirect_to, render
from panel.web.paging import Page

bp = Blueprint("webhooks", __name__, url_prefix="/webhooks")

RECEIVER_SAMPLES = {
    "python": ("Python", "receiver.py", "python3 receiver.py"),
    "node": ("Node.js", "receiver.mjs", "node receiver.mjs"),
    "php": ("PHP", "receiver.php", "php -S 127.0.0.1:8080 receiver.php"),
    "go": ("Go", "receiver.go", "go run receiver.go"),
}
"""Receivers that check signatures: what each language is called, its file and how it is run."""


class NewForm(WebhookIn):
    class Meta(WebhookIn.Meta):
        exclude = ("cluster_filter", "enabled")


class EditForm(WebhookPatch):
    class Meta(WebhookPatch.Meta):
        exclude = ("cluster_filter", "enabled")


@cache
def event_kind_groups():
    """The kinds that can happen here, by groups, as the form shows them: those of resources that have a table. The API
    accepts all of the specification's."""
    possible = [kind for kind in EVENT_KINDS.values() if f"{kind.resource}s" in Model.metadata.tables]
    found = {
        group: [kind for kind in possible if kind.kind.startswith(begins)]
        for group, begins in EVENT_KIND_GROUPS.items()
    }
    return {group: kinds for group, kinds in found.items() if kinds}


@cache
def read_sample(language):
    return (ROOT / "templates" / "user" / "webhooks" / "samples" / RECEIVER_SAMPLES[language][1]).read_text()


@bp.get("")
@require_page_permission("webhooks.view")
def index():
    return render("user/webhooks/index.html", "rows", page=Page(subscriptions.listing(current_access())))


@bp.get("/new")
@require_page_permission("webhooks.manage")
def new():
    return form_page(Form(NewForm))


@bp.post("/new")
@require_page_permission("webhooks.manage")
def create():
    """The buttons that fill the form in are part of it, so that they work without JavaScript: nothing is made then."""
    form = Form(NewForm)
    if "fill" in request.form:
        form.sent = fill_form(request.form)
    elif form.submit(lambda **wanted: subscriptions.create(current_access(), **wanted)):
        flash_message(f"{form.result.name} is told of events from now on. Send it a test event to see that it works.")
        return redirect_to(url_for(".show", subscription_id=form.result.id))
    return form_page(form)


@bp.get("/<subscription_id>/edit")
@require_page_permission("webhooks.view")
def edit(subscription_id):
    found = subscriptions.get(subscription_id, current_access())
    known = {"name": found.name, "url": found.url, "event_kinds": found.event_kinds}
    return form_page(Form(EditForm, initial=known), found)


@bp.post("/<subscription_id>/edit")
@require_page_permission("webhooks.manage")
def update(subscription_id):
    found = subscriptions.get(subscription_id, current_access())
    form = Form(EditForm)
    if "fill" in request.form:
        form.sent = fill_form(request.form)
    elif form.submit(lambda **changes: subscriptions.update(found, current_access(), **changes)):
        flash_message(f"{found.name} is changed.")
        return redirect_to(url_for(".show", subscription_id=found.id))
    return form_page(form, found)


def form_page(form, subscription=None):
    made = form.sent is not None and form.sent.get("fill") == "secret"
    around = {"subscription": subscription, "groups": event_kind_groups(), "every": ALL_KINDS, "made": made}
    return render("user/webhooks/form.html", "form", status=form.status, form=form, **around)


def fill_form(sent):
    """The form with what one of its buttons fills in: a new secret, or all kinds of a group."""
    what, _, which = sent["fill"].partition(":")
    done = MultiDict(sent)
    if what == "secret":
        done["secret"] = secrets.token_hex(32)
    if what == "group" and which in event_kind_groups():
        of_group = [kind.kind for kind in event_kind_groups()[which]]
        chosen = sent.getlist("event_kinds")
        left = [kind for kind in chosen if kind not in of_group]
        done.setlist("event_kinds", left if set(of_group) <= set(chosen) else left + of_group)
    return done


@bp.get("/verify")
@require_page_permission("webhooks.view")
def verify():
    """How a receiver checks that a delivery is ours."""
    language = request.args.get("language", "python")
    if language not in RECEIVER_SAMPLES:
        raise NotFound("There is no sample in this language.")
    around = {"language": language, "samples": RECEIVER_SAMPLES, "code": read_sample(language)}
    return render("user/webhooks/verify.html", **around)


@bp.get("/<subscription_id>")
@require_page_permission("webhooks.view")
def show(subscription_id):
    return show_page(subscription_id, Form(TestIn, initial={"kind": "instance.created"}))


@bp.post("/<subscription_id>/test")
@require_page_permission("webhooks.manage")
def send_test(subscription_id):
    found = subscriptions.get(subscription_id, current_access())
    form = Form(TestIn)
    if form.submit(lambda kind: subscriptions.send_test(found, kind)):
        return action_done("Test event requested.", url_for(".show", subscription_id=subscription_id), "info")
    return show_page(subscription_id, form)


def show_page(subscription_id, form):
    found = subscriptions.get(subscription_id, current_access())
    status = request.args.get("status")
    page = Page(subscriptions.select_deliveries(found, status if status in DELIVERY_STATUSES else None))
    around = {
        "subscription": found,
        "page": page,
        "form": form,
        "groups": event_kind_groups(),
        "again": subscriptions.redelivery_error,
    }
    return render("user/webhooks/show.html", "live", status=form.status, **around)


@bp.post("/<subscription_id>/enable")
@require_page_permission("webhooks.manage")
def enable(subscription_id):
    return set_enabled(subscription_id, True, "{} is on again. What happened meanwhile is not sent.")


@bp.post("/<subscription_id>/disable")
@require_page_permission("webhooks.manage")
def disable(subscription_id):
    return set_enabled(subscription_id, False, "{} is off. What is under way is still sent.")


def set_enabled(subscription_id, enabled, words):
    found = subscriptions.get(subscription_id, current_access())
    subscriptions.update(found, current_access(), enabled=enabled)
    return action_done(words.format(found.name), url_for(".show", subscription_id=subscription_id))


@bp.post("/<subscription_id>/delete")
@require_page_permission("webhooks.delete")
def delete(subscription_id):
    found = subscriptions.get(subscription_id, current_access())
    subscriptions.delete(found)
    if "leave" not in request.form:
        return action_done(f"{found.name} is deleted.", url_for(".index"))
    flash_message(f"{found.name} is deleted.")
    return redirect_to(url_for(".index"))


@bp.get("/<subscription_id>/deliveries/<delivery_id>")
@require_page_permission("webhooks.view")
def delivery(subscription_id, delivery_id):
    found = subscriptions.get(subscription_id, current_access())
    row = subscriptions.get_delivery(found, delivery_id)
    around = {"subscription": found, "delivery": row, "again": subscriptions.redelivery_error}
    sent, got = rendering.render_request(found, row), rendering.render_attempts(found, row)
    return render("user/webhooks/delivery.html", "live", sent=sent, got=got, **around)


@bp.post("/<subscription_id>/deliveries/<delivery_id>/redeliver")
@require_page_permission("webhooks.manage")
def redeliver(subscription_id, delivery_id):
    found = subscriptions.get(subscription_id, current_access())
    subscriptions.redeliver(found, subscriptions.get_delivery(found, delivery_id))
    address = url_for(".delivery", subscription_id=subscription_id, delivery_id=delivery_id)
    return action_done("Delivery requested.", address, "info")
