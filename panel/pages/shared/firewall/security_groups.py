"""Security groups: rules, and the instances that they hold for."""

from flask import abort, request, url_for

from panel.auth.browser_session import actor, viewer
from panel.core import jobs
from panel.core.db import session
from panel.pages.shared.area import Pages, area, asker, may, operating
from panel.pages.shared.firewall import rule_form
from panel.pages.shared.firewall.rule_form import PRESETS, USUAL, RuleForm, add_rules
from panel.schemas.base import Text
from panel.schemas.security_groups import Members, SecurityGroupIn, SecurityGroupPatch
from panel.services import ip_sets, owner_emails, security_groups
from panel.web.forms import Form
from panel.web.htmx import did, go, render, say
from panel.web.paging import Page

PAGES = Pages()
VIEW, MANAGE, DELETE = "security_groups.view", "security_groups.manage", "security_groups.delete"
MOST = 500
"""How many instances the form offers to add."""


class Owned(SecurityGroupIn):
    """What operators say beside: whose it is to be."""

    owner = Text(load_default=None)


def found(group_id):
    return security_groups.get(group_id, asker())


def changeable(group_id):
    return security_groups.owned(group_id, asker())


@PAGES.page("GET", "", can=VIEW)
def index():
    search = request.args.get("search", "")[:255]
    page = Page(security_groups.listing(asker(), search=search))
    security_groups.weigh(page.rows, asker())
    emails = owner_emails.emails(page.rows) if operating() else {}
    return render("user/security_groups/index.html", "rows", page=page, filtered=bool(search), emails=emails)


@PAGES.page("GET", "/new", can=MANAGE)
def new():
    return form_page(Form(SecurityGroupIn))


@PAGES.page("POST", "/new", can=MANAGE)
def create():
    form = Form(Owned if operating() else SecurityGroupIn)
    if form.submit(make):
        say(f"The group {form.result.name} is made. Add rules, then instances.")
        return go(url_for(".show", group_id=form.result.id))
    return form_page(form)


def make(owner=None, **data):
    return security_groups.create(owner_emails.named(owner) if operating() else viewer(), **data)


def form_page(form, group=None):
    return render("user/security_groups/form.html", "form", status=form.status, form=form, group=group)


@PAGES.page("GET", "/<group_id>", can=VIEW)
def show(group_id):
    return shown(group_id, Form(RuleForm, known=USUAL), "live")


def shown(group_id, form, block):
    """Rules may refer to what is the owner's and the platform's; the platform's own only to the latter."""
    group = found(group_id)
    owner = owner_emails.of(group) if operating() else viewer()
    seen = may("instances.view")
    groups, sets = (session.scalars(each.listing(owner)).all() for each in (security_groups, ip_sets))
    context = {
        "group": group,
        "form": form,
        "rules": security_groups.rules(group),
        "inside": session.scalars(security_groups.instances(group, asker())).all() if seen else None,
        "others": session.scalars(security_groups.others(group, owner).limit(MOST)).all() if seen and owner else [],
        "group_choices": [(each.id, each.name) for each in groups if owner or each.is_global],
        "set_choices": [(each.id, f"{each.name} ({each.ip_version})") for each in sets if owner or each.is_global],
        "no": no_change(group),
        "presets": PRESETS,
        "owner": operating() and owner,
    }
    return render("user/security_groups/show.html", block, status=form.status, **context)


def no_change(group):
    """Why the viewer cannot change the group, or None."""
    if group.is_global and not operating():
        return "This group belongs to the platform."
    return None if may(MANAGE) else "You may look at security groups, not change them."


@PAGES.page("GET", "/<group_id>/edit", can=VIEW)
def edit(group_id):
    group = found(group_id)
    return form_page(Form(SecurityGroupPatch, known=group), group)


@PAGES.page("POST", "/<group_id>/edit", can=MANAGE)
def change(group_id):
    group, form = changeable(group_id), Form(SecurityGroupPatch)
    if form.submit(lambda **data: security_groups.update(group, **data)):
        say("The group is changed.")
        return go(url_for(".show", group_id=group_id))
    return form_page(form, changeable(group_id))


@PAGES.page("POST", "/<group_id>/delete", can=DELETE)
def delete(group_id):
    group = changeable(group_id)
    name = group.name
    security_groups.delete(group, actor=actor())
    say(f"The group {name} is removed.")
    return go(url_for(".index"))


@PAGES.page("POST", "/<group_id>/rules", can=MANAGE)
def add_rule(group_id):
    group, form = changeable(group_id), Form(RuleForm)
    if form.submit(lambda **data: add_rules(group, asker(), actor=actor(), **data)):
        words = "Rule added." if len(form.result) == 1 else f"{len(form.result)} rules added."
        return did(with_update(words), url_for(".show", group_id=group_id))
    return shown(group_id, form, "rule")


@PAGES.page("POST", "/<group_id>/presets/<preset>", can=MANAGE)
def add_preset(group_id, preset):
    """Adds the rules of a preset, for both IP versions."""
    if preset not in PRESETS:
        abort(404)
    rule_form.add_preset(changeable(group_id), asker(), preset, actor=actor())
    return did(with_update(f"{PRESETS[preset][0]} allowed."), url_for(".show", group_id=group_id))


@PAGES.page("POST", "/<group_id>/rule/<rule_id>/delete", can=MANAGE)
def remove_rule(group_id, rule_id):
    security_groups.remove_rule(changeable(group_id), rule_id, actor=actor())
    return did(with_update("Rule removed."), url_for(".show", group_id=group_id))


@PAGES.page("POST", "/<group_id>/attach", can=MANAGE)
def attach(group_id):
    """Asks first when nothing could reach an instance any more."""
    group, ids = found(group_id), request.form.getlist("instance_ids")
    if request.form.get("add") == "ssh":
        rule_form.add_preset(changeable(group_id), asker(), "ssh", actor=actor())
    elif "confirmed" not in request.form and closed_instances(group, ids):
        return go(url_for(".confirm_attach", group_id=group_id, instance_ids=ids, back=request.form.get("back")))
    return move(group_id, security_groups.attach, "Added to the security group.")


@PAGES.page("GET", "/<group_id>/attach", can=MANAGE)
def confirm_attach(group_id):
    group, ids = found(group_id), request.args.getlist("instance_ids")
    context = {"group": group, "ids": ids, "closed": closed_instances(group, ids), "no": no_change(group)}
    return render("user/security_groups/attach.html", back=request.args.get("back", ""), **context)


def closed_instances(group, ids):
    """The instances that the group would close, of those that the person may see."""
    seen = {instance.id for instance in security_groups.visible(ids, asker())}
    return [instance for instance in security_groups.closed_by(group, ids) if instance.id in seen]


@PAGES.page("POST", "/<group_id>/detach", can=MANAGE)
def detach(group_id):
    return move(group_id, security_groups.detach, "Removed from the security group.")


def with_update(sentence):
    """The sentence, and that the instances' firewalls follow, where this change has queued an update of them."""
    return f"{sentence} Firewall update requested." if jobs.has_queued_tasks() else sentence


def move(group_id, way, sentence):
    """Customers put their instances into the platform's groups too, so it is enough that the group is found."""
    group, form = found(group_id), Form(Members)
    moved = form.submit(lambda instance_ids: way(group, instance_ids, asker(), actor=actor()))
    back, here = request.form.get("back", ""), url_for(".show", group_id=group_id)
    address = url_for(f"{area()}instances.tab", instance_id=back, tab="network") if back else here
    if not request.form.getlist("instance_ids"):
        return did("Choose an instance first.", address, "warning")
    return did(with_update(sentence) if moved else " ".join(form.errors.values()), address, None if moved else "danger")
