"""Security groups: rules, and the instances that they hold for."""

from flask import abort, request, url_for

from panel.auth.browser_session import get_current_access, get_current_actor
from panel.core import jobs
from panel.core.db import session
from panel.models import SecurityGroup
from panel.pages.shared.area import SharedViews, get_endpoint_prefix, has_permission, is_operator_area, scope_account
from panel.pages.shared.firewall import rule_form
from panel.pages.shared.firewall.rule_form import RULE_DEFAULTS, RULE_PRESETS, RuleForm, add_rules
from panel.schemas.base import Text
from panel.schemas.security_groups import Members, SecurityGroupIn, SecurityGroupPatch
from panel.services import ip_sets, owner_emails, security_groups
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.paging import Page
from panel.web.translation import gettext as _

VIEWS = SharedViews()
VIEW_PERMISSION, MANAGE_PERMISSION, DELETE_PERMISSION = (
    "security_groups.view",
    "security_groups.manage",
    "security_groups.delete",
)
MAX_OFFERED_INSTANCES = 500
"""Maximum of instances that the form offers."""


class OwnedSecurityGroupForm(SecurityGroupIn):
    """The operators' form, which also has the owner."""

    owner = Text(load_default=None)


def get_visible(group_id):
    return security_groups.get(group_id, scope_account())


def get_own(group_id):
    return security_groups.get_own(group_id, scope_account())


ORDERS = {"name": SecurityGroup.name}


@VIEWS.page("GET", "", can=VIEW_PERMISSION)
def index():
    search = request.args.get("search", "")[:255]
    page = Page(
        security_groups.with_counts(security_groups.listing(scope_account(), search=search), scope_account()),
        orders=ORDERS,
    )
    emails = owner_emails.map_emails(page.rows) if is_operator_area() else {}
    return render("customer/security_groups/index.html", "rows", page=page, filtered=bool(search), emails=emails)


@VIEWS.page("GET", "/new", can=MANAGE_PERMISSION)
def new():
    return form_page(Form(SecurityGroupIn))


@VIEWS.page("POST", "/new", can=MANAGE_PERMISSION)
def create():
    form = Form(OwnedSecurityGroupForm if is_operator_area() else SecurityGroupIn)
    if form.submit(create_group):
        flash_message(_("Security group %(name)s created. Add rules, then instances.", name=form.result.name))
        return redirect_to(url_for(".show", group_id=form.result.id))
    return form_page(form)


def create_group(owner=None, **data):
    return security_groups.create(
        owner_emails.get_account_by_email(owner) if is_operator_area() else get_current_access(), **data
    )


def form_page(form, group=None):
    return render("customer/security_groups/form.html", "form", status=form.status, form=form, group=group)


@VIEWS.page("GET", "/<group_id>", can=VIEW_PERMISSION)
def show(group_id):
    return group_page(group_id, Form(RuleForm, initial=RULE_DEFAULTS), "live")


def group_page(group_id, form, block):
    """Render the group. Its rules may refer to groups and IP sets of its owner and of the platform; those of the
    platform's groups only to the platform's."""
    group = get_visible(group_id)
    owner = owner_emails.find_account(group) if is_operator_area() else get_current_access()
    can_view_instances = has_permission("instances.view")
    groups, sets = (session.scalars(service.listing(owner)).all() for service in (security_groups, ip_sets))
    context = {
        "group": group,
        "form": form,
        "rules": security_groups.list_rules(group),
        "inside": session.scalars(security_groups.select_instances(group, scope_account())).all()
        if can_view_instances
        else None,
        "others": session.scalars(
            security_groups.select_other_instances(group, owner).limit(MAX_OFFERED_INSTANCES)
        ).all()
        if can_view_instances and owner
        else [],
        "group_choices": [(row.id, row.name) for row in groups if owner or row.is_global],
        "set_choices": [(row.id, f"{row.name} ({row.ip_version})") for row in sets if owner or row.is_global],
        "disabled_reason": change_error(group),
        "presets": RULE_PRESETS,
        "owner": is_operator_area() and owner,
    }
    return render("customer/security_groups/show.html", block, status=form.status, **context)


def change_error(group):
    """Return why the viewer cannot change the group, or None."""
    if group.is_global and not is_operator_area():
        return _("This group is managed by the platform.")
    return None if has_permission(MANAGE_PERMISSION) else _("You can view security groups but not change them.")


@VIEWS.page("GET", "/<group_id>/edit", can=VIEW_PERMISSION)
def edit(group_id):
    group = get_visible(group_id)
    return form_page(Form(SecurityGroupPatch, initial=group), group)


@VIEWS.page("POST", "/<group_id>/edit", can=MANAGE_PERMISSION)
def change(group_id):
    group, form = get_own(group_id), Form(SecurityGroupPatch)
    if form.submit(lambda **data: security_groups.update(group, **data)):
        flash_message(_("Security group saved."))
        return redirect_to(url_for(".show", group_id=group_id))
    return form_page(form, get_own(group_id))


@VIEWS.page("POST", "/<group_id>/delete", can=DELETE_PERMISSION)
def delete(group_id):
    group = get_own(group_id)
    if must_confirm(list_losers_of_all(group, left=group)):
        return redirect_to(url_for(".confirm_delete", group_id=group_id))
    name = group.name
    security_groups.delete(group, actor=get_current_actor())
    flash_message(_("Security group %(name)s deleted.", name=name))
    return redirect_to(url_for(".index"))


@VIEWS.page("GET", "/<group_id>/delete", can=DELETE_PERMISSION)
def confirm_delete(group_id):
    group = get_own(group_id)
    return ssh_warning_page(
        group,
        list_losers_of_all(group, left=group),
        title=_("Delete %(name)s", name=group.name),
        explanation=_("Their other groups have no rule for SSH."),
        url=url_for(".delete", group_id=group_id),
        button=_("Delete group"),
    )


@VIEWS.page("POST", "/<group_id>/rules", can=MANAGE_PERMISSION)
def add_rule(group_id):
    group, form = get_own(group_id), Form(RuleForm)
    if form.submit(lambda **data: add_rules(group, scope_account(), actor=get_current_actor(), **data)):
        message = _("Rule added.") if len(form.result) == 1 else _("%(count)s rules added.", count=len(form.result))
        return build_action_response(with_update_notice(message), url_for(".show", group_id=group_id))
    return group_page(group_id, form, "rule")


@VIEWS.page("POST", "/<group_id>/presets/<preset>", can=MANAGE_PERMISSION)
def add_preset(group_id, preset):
    """Add the rules of a preset, for both IP versions."""
    if preset not in RULE_PRESETS:
        abort(404)
    rule_form.add_preset(get_own(group_id), scope_account(), preset, actor=get_current_actor())
    return build_action_response(
        with_update_notice(_("%(protocol)s allowed.", protocol=RULE_PRESETS[preset][0])),
        url_for(".show", group_id=group_id),
    )


@VIEWS.page("POST", "/<group_id>/rule/<rule_id>/delete", can=MANAGE_PERMISSION)
def remove_rule(group_id, rule_id):
    """Delete a rule. Asks for confirmation when SSH to an instance would be blocked."""
    group = get_own(group_id)
    if must_confirm(list_losers_of_all(group, removed_rule_id=rule_id)):
        return redirect_to(url_for(".confirm_rule_removal", group_id=group_id, rule_id=rule_id))
    security_groups.remove_rule(group, rule_id, actor=get_current_actor())
    return build_action_response(with_update_notice(_("Rule deleted.")), url_for(".show", group_id=group_id))


@VIEWS.page("GET", "/<group_id>/rule/<rule_id>/delete", can=MANAGE_PERMISSION)
def confirm_rule_removal(group_id, rule_id):
    group = get_own(group_id)
    return ssh_warning_page(
        group,
        list_losers_of_all(group, removed_rule_id=rule_id),
        title=_("Delete rule"),
        explanation=_("This is the last rule that allows SSH."),
        url=url_for(".remove_rule", group_id=group_id, rule_id=rule_id),
        button=_("Delete rule"),
    )


@VIEWS.page("POST", "/<group_id>/attach", can=MANAGE_PERMISSION)
def attach(group_id):
    """Add instances. Asks for confirmation when SSH to one would be blocked."""
    group, ids = get_visible(group_id), request.form.getlist("instance_ids")
    if request.form.get("add") == "ssh":
        rule_form.add_preset(get_own(group_id), scope_account(), "ssh", actor=get_current_actor())
    elif must_confirm(list_losers(ids, joined=group)):
        return redirect_to(
            url_for(".confirm_attach", group_id=group_id, instance_ids=ids, back=request.form.get("back"))
        )
    return change_members(group_id, security_groups.attach, _("Added to the security group."))


@VIEWS.page("GET", "/<group_id>/attach", can=MANAGE_PERMISSION)
def confirm_attach(group_id):
    group, ids = get_visible(group_id), request.args.getlist("instance_ids")
    has_inbound_rules = any(rule.direction == "ingress" for rule in security_groups.list_rules(group))
    return ssh_warning_page(
        group,
        list_losers(ids, joined=group),
        title=_("Add to %(name)s", name=group.name),
        explanation=_("The group has no rule for SSH.") if has_inbound_rules else _("The group has no inbound rules."),
        url=url_for(".attach", group_id=group_id),
        button=_("Add without SSH") if has_inbound_rules else _("Add without rules"),
        ids=ids,
        is_all_blocked=not has_inbound_rules,
        can_add_rule=change_error(group) is None,
    )


@VIEWS.page("POST", "/<group_id>/detach", can=MANAGE_PERMISSION)
def detach(group_id):
    """Remove instances. Asks for confirmation when SSH to one would be blocked."""
    group, ids = get_visible(group_id), request.form.getlist("instance_ids")
    if must_confirm(list_losers(ids, left=group)):
        return redirect_to(
            url_for(".confirm_detach", group_id=group_id, instance_ids=ids, back=request.form.get("back"))
        )
    return change_members(group_id, security_groups.detach, _("Removed from the security group."))


@VIEWS.page("GET", "/<group_id>/detach", can=MANAGE_PERMISSION)
def confirm_detach(group_id):
    group, ids = get_visible(group_id), request.args.getlist("instance_ids")
    return ssh_warning_page(
        group,
        list_losers(ids, left=group),
        title=_("Remove from %(name)s", name=group.name),
        explanation=_("The other groups have no rule for SSH."),
        url=url_for(".detach", group_id=group_id),
        button=_("Remove from group"),
        ids=ids,
    )


def must_confirm(losers):
    return bool(losers) and "confirmed" not in request.form


def list_losers(ids, **change):
    """Return the visible ones of these instances that the change would cut off from SSH."""
    visible_ids = [instance.id for instance in security_groups.list_visible(ids, scope_account())]
    return security_groups.list_ssh_losers(visible_ids, **change)


def list_losers_of_all(group, **change):
    """Return the instances in the group that the change would cut off from SSH."""
    return list_losers(security_groups.list_member_ids(group), **change)


def ssh_warning_page(group, losers, **context):
    """Ask whether SSH to these instances may be blocked. `url` is where the answer is sent, with `ids` if there are
    any."""
    context = {"ids": [], "is_all_blocked": False, "can_add_rule": False} | context
    back = request.args.get("back", "")
    context["back_url"] = (
        url_for(f"{get_endpoint_prefix()}instances.tab", instance_id=back, tab="network")
        if back
        else url_for(".show", group_id=group.id)
    )
    return render("customer/security_groups/ssh_warning.html", group=group, losers=losers, back=back, **context)


def with_update_notice(sentence):
    """Return the message, with a notice when this request queued updates of firewalls."""
    return _("%(sentence)s Firewall update requested.", sentence=sentence) if jobs.has_queued_tasks() else sentence


def change_members(group_id, change_membership, sentence):
    """Attach or detach instances. Needs only a visible group, because customers may use the platform's groups."""
    group, form = get_visible(group_id), Form(Members)
    moved = form.submit(
        lambda instance_ids: change_membership(group, instance_ids, scope_account(), actor=get_current_actor())
    )
    back, group_url = request.form.get("back", ""), url_for(".show", group_id=group_id)
    address = url_for(f"{get_endpoint_prefix()}instances.tab", instance_id=back, tab="network") if back else group_url
    if not request.form.getlist("instance_ids"):
        return build_action_response(_("Select an instance first."), address, "warning")
    return build_action_response(
        with_update_notice(sentence) if moved else " ".join(form.errors.values()), address, None if moved else "danger"
    )
