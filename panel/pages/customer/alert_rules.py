"""Alert rules: the list, and forms to create and change one."""

from flask import Blueprint, url_for

from panel.auth.browser_session import get_current_access, require_page_permission
from panel.schemas.alert_rules import AlertRuleIn, AlertRulePatch
from panel.services import alert_rules
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry, PaletteAction
from panel.web.paging import Page
from panel.web.translation import gettext as _

bp = Blueprint("alert_rules", __name__, url_prefix="/alert-rules")
NAVIGATION = NavigationEntry(
    "watch", "Alert rules", "alert_rules.index", icon="box", permission="monitoring.view", position=40
)
PALETTE_ACTIONS = (
    PaletteAction("Add alert rule", "alert_rules.new", icon="plus", permission="monitoring.manage", position=111),
)


@bp.get("")
@require_page_permission("monitoring.view")
def index():
    page = Page(alert_rules.listing(get_current_access()))
    return render("customer/alert_rules/index.html", "rows", page=page)


@bp.get("/new")
@require_page_permission("monitoring.manage")
def new():
    return render("customer/alert_rules/new.html", form=Form(AlertRuleIn))


@bp.post("/new")
@require_page_permission("monitoring.manage")
def create():
    form = Form(AlertRuleIn)
    if form.submit(lambda **data: alert_rules.create(get_current_access(), **data)):
        flash_message(_("Alert rule %(name)s created.", name=form.result.name))
        return redirect_to(url_for(".index"))
    return render("customer/alert_rules/new.html", "form", status=form.status, form=form)


@bp.get("/<alert_rule_id>")
@require_page_permission("monitoring.view")
def edit(alert_rule_id):
    alert_rule = alert_rules.get(alert_rule_id, get_current_access())
    form = Form(AlertRulePatch, initial=alert_rule)
    return render("customer/alert_rules/edit.html", alert_rule=alert_rule, form=form)


@bp.post("/<alert_rule_id>")
@require_page_permission("monitoring.manage")
def update(alert_rule_id):
    alert_rule = alert_rules.get(alert_rule_id, get_current_access())
    form = Form(AlertRulePatch, initial=alert_rule)
    if form.submit(lambda **data: alert_rules.update(alert_rule, **data)):
        flash_message(_("Alert rule %(name)s changed.", name=form.result.name))
        return redirect_to(url_for(".index"))
    return render("customer/alert_rules/edit.html", "form", status=form.status, alert_rule=alert_rule, form=form)


@bp.post("/<alert_rule_id>/delete")
@require_page_permission("monitoring.delete")
def delete(alert_rule_id):
    alert_rule = alert_rules.get(alert_rule_id, get_current_access())
    alert_rules.delete(alert_rule)
    return build_action_response(_("Alert rule %(name)s deleted.", name=alert_rule.name), url_for(".index"))
