"""Alert rules: the list, a page for each with its history, and forms to create and change one."""

from flask import Blueprint, url_for

from panel.auth.browser_session import get_current_access, require_page_permission
from panel.core.db import session
from panel.models import AlertRule
from panel.pages.shared.alert_rules import (
    OPERATOR_LABELS,
    describe_condition,
    format_metric_value,
    label_metric,
)
from panel.schemas.alert_rules import METRIC_ALIASES, METRIC_LABELS, AlertRuleIn, AlertRulePatch
from panel.services import alert_rules, notification_channels
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry, PaletteAction, SearchResults
from panel.web.paging import Page
from panel.web.translation import gettext as _
from panel.web.translation import lazy_gettext

bp = Blueprint("alert_rules", __name__, url_prefix="/alert-rules")
NAVIGATION = NavigationEntry(
    "watch",
    "Alerts",
    "alert_rules.index",
    icon="bell",
    permission="monitoring.view",
    position=30,
    select_attention=alert_rules.select_firing,
)
PALETTE_ACTIONS = (
    PaletteAction("Add alert rule", "alert_rules.new", icon="plus", permission="monitoring.manage", position=111),
)
SEARCH_RESULTS = (
    SearchResults(
        "alert_rule", "Alerts", icon="bell", url=lambda row: url_for("alert_rules.show", alert_rule_id=row.id)
    ),
)

DURATIONS = {
    0: lazy_gettext("At once"),
    60: lazy_gettext("1 minute"),
    300: lazy_gettext("5 minutes"),
    900: lazy_gettext("15 minutes"),
    3600: lazy_gettext("1 hour"),
}
REMINDERS = {
    0: lazy_gettext("No reminders"),
    900: lazy_gettext("Every 15 minutes"),
    3600: lazy_gettext("Every hour"),
    21600: lazy_gettext("Every 6 hours"),
    86400: lazy_gettext("Every day"),
}
NEW_RULE = {
    "metric": "cpu_pct",
    "operator": "gt",
    "threshold": 90,
    "duration": 300,
    "reminder_interval": 3600,
    "resource_type": "instance",
}


def get_rule(alert_rule_id):
    return alert_rules.get(alert_rule_id, get_current_access())


ORDERS = {"name": AlertRule.name}


@bp.get("")
@require_page_permission("monitoring.view")
def index():
    page = Page(alert_rules.listing(get_current_access()), orders=ORDERS)
    names = alert_rules.map_resource_names(page.rows)
    context = {"page": page, "names": names, "describe_condition": describe_condition}
    context["is_suspended"] = get_current_access().suspended
    return render("customer/alert_rules/index.html", "rows", **context)


@bp.get("/new")
@require_page_permission("monitoring.manage")
def new():
    return form_page(Form(AlertRuleIn, initial=NEW_RULE))


@bp.post("/new")
@require_page_permission("monitoring.manage")
def create():
    form = Form(AlertRuleIn, initial=NEW_RULE)
    if form.submit(lambda **data: alert_rules.create(get_current_access(), **data)):
        flash_message(_("Alert rule %(name)s created.", name=form.result.name))
        return redirect_to(url_for(".show", alert_rule_id=form.result.id))
    return form_page(form)


def form_page(form, alert_rule=None):
    access = get_current_access()
    metric = form.get_value("metric")
    metrics = [(name, label_metric(name)) for name in METRIC_LABELS]
    if metric in METRIC_ALIASES:
        metrics.append((metric, label_metric(METRIC_ALIASES[metric])))
    context = {
        "alert_rule": alert_rule,
        "metrics": metrics,
        "operators": list(OPERATOR_LABELS.items()),
        "durations": add_current(DURATIONS, form.get_value("duration")),
        "reminders": add_current(REMINDERS, form.get_value("reminder_interval")),
        "resources": alert_rules.list_resource_options(access),
        "sees_all": access.reach == "all",
        "channels": [(row.id, row.name) for row in session.scalars(notification_channels.listing(access))],
    }
    return render("customer/alert_rules/form.html", "form", status=form.status, form=form, **context)


def add_current(labels, value):
    """Return the options, with the current number of seconds if it is another one."""
    options = list(labels.items())
    if str(value).isdecimal() and int(value) not in labels:
        options.append((int(value), _("%(seconds)s seconds", seconds=value)))
    return options


@bp.get("/<alert_rule_id>")
@require_page_permission("monitoring.view")
def show(alert_rule_id):
    alert_rule = get_rule(alert_rule_id)
    context = {
        "alert_rule": alert_rule,
        "is_suspended": get_current_access().suspended,
        "condition": describe_condition(alert_rule),
        "format_metric_value": format_metric_value,
        "resource_name": alert_rules.map_resource_names([alert_rule]).get(alert_rule.resource_id),
        "states": session.execute(alert_rules.select_states(alert_rule).limit(50)).all(),
        "page": Page(alert_rules.select_history(alert_rule)),
        "durations": DURATIONS,
        "reminders": REMINDERS,
    }
    return render("customer/alert_rules/show.html", "live", **context)


@bp.get("/<alert_rule_id>/edit")
@require_page_permission("monitoring.manage")
def edit(alert_rule_id):
    alert_rule = get_rule(alert_rule_id)
    return form_page(Form(AlertRulePatch, initial=make_initial(alert_rule)), alert_rule)


@bp.post("/<alert_rule_id>/edit")
@require_page_permission("monitoring.manage")
def update(alert_rule_id):
    alert_rule = get_rule(alert_rule_id)
    form = Form(AlertRulePatch, initial=make_initial(alert_rule))
    if form.submit(lambda **data: alert_rules.update(alert_rule, get_current_access(), **data)):
        flash_message(_("Alert rule %(name)s changed.", name=form.result.name))
        return redirect_to(url_for(".show", alert_rule_id=alert_rule_id))
    return form_page(form, alert_rule)


def make_initial(alert_rule):
    names = ("name", "resource_id", "metric", "operator", "threshold", "duration", "reminder_interval")
    values = {name: getattr(alert_rule, name) for name in names}
    threshold = f"{alert_rule.threshold:.15g}"
    return values | {"threshold": threshold, "channel_ids": [channel.id for channel in alert_rule.channels]}


@bp.post("/<alert_rule_id>/acknowledge")
@require_page_permission("monitoring.manage")
def acknowledge(alert_rule_id):
    alert_rule = get_rule(alert_rule_id)
    alert_rules.acknowledge(alert_rule, get_current_access().actor)
    return build_action_response(
        _("%(name)s acknowledged. You get no more reminders.", name=alert_rule.name),
        url_for(".show", alert_rule_id=alert_rule_id),
    )


@bp.post("/<alert_rule_id>/enable")
@require_page_permission("monitoring.manage")
def enable(alert_rule_id):
    alert_rule = alert_rules.update(get_rule(alert_rule_id), get_current_access(), enabled=True)
    return build_action_response(_("%(name)s enabled.", name=alert_rule.name), url_for(".index"))


@bp.post("/<alert_rule_id>/disable")
@require_page_permission("monitoring.manage")
def disable(alert_rule_id):
    alert_rule = alert_rules.update(get_rule(alert_rule_id), get_current_access(), enabled=False)
    return build_action_response(_("%(name)s disabled.", name=alert_rule.name), url_for(".index"))


@bp.post("/<alert_rule_id>/delete")
@require_page_permission("monitoring.delete")
def delete(alert_rule_id):
    alert_rule = get_rule(alert_rule_id)
    alert_rules.delete(alert_rule)
    return build_action_response(_("Alert rule %(name)s deleted.", name=alert_rule.name), url_for(".index"))
