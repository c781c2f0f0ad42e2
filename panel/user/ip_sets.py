"""IP sets: named lists of networks for the rules of security groups."""

from flask import Blueprint, request, url_for

from panel.auth.browser import actor, may, page_can, viewer
from panel.forms import Form
from panel.htmx import did, go, render, say
from panel.paging import Page
from panel.schemas.ip_sets import IpSetBulk, IpSetIn, IpSetPatch
from panel.services import ip_sets

bp = Blueprint("ip_sets", __name__, url_prefix="/ip-sets")
VIEW, MANAGE, DELETE = "ip_sets.view", "ip_sets.manage", "ip_sets.delete"


def mine(set_id):
    return ip_sets.owned(set_id, viewer())


@bp.get("")
@page_can(VIEW)
def index():
    page = Page(ip_sets.listing(viewer(), search=request.args.get("search", "")[:255]))
    ip_sets.weigh(page.rows)
    return render("user/ip_sets/index.html", "rows", page=page)


@bp.get("/new")
@page_can(MANAGE)
def new():
    return render("user/ip_sets/form.html", form=Form(IpSetIn, known={"ip_version": "ipv4"}), ip_set=None)


@bp.post("/new")
@page_can(MANAGE)
def create():
    form = Form(IpSetIn)
    if form.submit(lambda **data: ip_sets.create(viewer(), **data)):
        say(f"The set {form.result.name} is made. Add networks to it.")
        return go(url_for(".show", set_id=form.result.id))
    return render("user/ip_sets/form.html", "form", status=form.status, form=form, ip_set=None)


@bp.get("/<set_id>")
@page_can(VIEW)
def show(set_id):
    return shown(set_id, Form(IpSetBulk), "live")


def shown(set_id, form, block):
    ip_set = ip_sets.get(set_id, viewer())
    ip_sets.weigh([ip_set])
    why = "This set belongs to the platform." if ip_set.is_global else None
    no = why or (None if may(MANAGE) else "You may look at IP sets, not change them.")
    return render("user/ip_sets/show.html", block, status=form.status, ip_set=ip_set, form=form, no=no)


@bp.get("/<set_id>/edit")
@page_can(VIEW)
def edit(set_id):
    ip_set = ip_sets.get(set_id, viewer())
    return render("user/ip_sets/form.html", form=Form(IpSetPatch, known=ip_set), ip_set=ip_set)


@bp.post("/<set_id>/edit")
@page_can(MANAGE)
def change(set_id):
    ip_set, form = mine(set_id), Form(IpSetPatch)
    if form.submit(lambda **data: ip_sets.update(ip_set, **data)):
        say("The set is changed.")
        return go(url_for(".show", set_id=set_id))
    return render("user/ip_sets/form.html", "form", status=form.status, form=form, ip_set=mine(set_id))


@bp.post("/<set_id>/delete")
@page_can(DELETE)
def delete(set_id):
    ip_set = mine(set_id)
    name = ip_set.name
    ip_sets.delete(ip_set)
    say(f"The set {name} is removed.")
    return go(url_for(".index"))


@bp.post("/<set_id>/entries")
@page_can(MANAGE)
def add(set_id):
    """Adds what can be added; what cannot stays in the form with the reason."""
    ip_set, form = mine(set_id), Form(IpSetBulk)
    if not form.submit(lambda cidrs: ip_sets.add_many(ip_set, cidrs, actor=actor())):
        return shown(set_id, form, "entries")
    made, wrong = form.result
    sentence = f"{len(made)} added." + "".join(f" {cidr}: {message}" for cidr, message in wrong[:5])
    return did(sentence, url_for(".show", set_id=set_id), "warning" if wrong else "success")


@bp.post("/<set_id>/entry/<entry_id>/delete")
@page_can(MANAGE)
def remove(set_id, entry_id):
    ip_sets.remove(mine(set_id), entry_id, actor=actor())
    return did("The network is removed.", url_for(".show", set_id=set_id))
