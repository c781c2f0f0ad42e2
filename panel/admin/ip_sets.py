"""Everybody's IP sets, and the platform's."""

from flask import Blueprint, request, url_for

from panel.auth.browser import actor, page_can, refusal
from panel.forms import Form
from panel.htmx import did, go, render, say
from panel.paging import Page
from panel.schemas.base import Text
from panel.schemas.ip_sets import IpSetBulk, IpSetIn, IpSetPatch
from panel.services import ip_sets, owners

bp = Blueprint("admin_ip_sets", __name__, url_prefix="/admin/ip-sets")
READ, WRITE = "admin:ip_sets:read", "admin:ip_sets:write"


class Owned(IpSetIn):
    owner = Text(load_default=None)


@bp.get("")
@page_can(READ)
def index():
    search = request.args.get("search", "")[:255]
    page = Page(ip_sets.listing(search=search))
    ip_sets.weigh(page.rows)
    emails = owners.emails(page.rows)
    return render("admin/ip_sets/index.html", "rows", page=page, filtered=bool(search), emails=emails)


@bp.get("/new")
@page_can(WRITE)
def new():
    return form_page(Form(Owned, known={"ip_version": "ipv4"}))


@bp.post("/new")
@page_can(WRITE)
def create():
    form = Form(Owned)
    if form.submit(lambda owner, **data: ip_sets.create(owners.named(owner), **data)):
        say(f"The set {form.result.name} is made. Add networks to it.")
        return go(url_for(".show", set_id=form.result.id))
    return form_page(form)


def form_page(form, ip_set=None):
    context = {"form": form, "ip_set": ip_set, "owned": ip_set is None}
    return render("user/ip_sets/form.html", "form", status=form.status, **context)


@bp.get("/<set_id>")
@page_can(READ)
def show(set_id):
    return shown(set_id, Form(IpSetBulk), "live")


def shown(set_id, form, block):
    ip_set = ip_sets.weigh([ip_sets.get(set_id)])[0]
    context = {"ip_set": ip_set, "form": form, "no": refusal(WRITE), "owner": owners.of(ip_set)}
    return render("user/ip_sets/show.html", block, status=form.status, **context)


@bp.get("/<set_id>/edit")
@page_can(READ)
def edit(set_id):
    ip_set = ip_sets.get(set_id)
    return form_page(Form(IpSetPatch, known=ip_set), ip_set)


@bp.post("/<set_id>/edit")
@page_can(WRITE)
def change(set_id):
    ip_set, form = ip_sets.get(set_id), Form(IpSetPatch)
    if form.submit(lambda **data: ip_sets.update(ip_set, **data)):
        say("The set is changed.")
        return go(url_for(".show", set_id=set_id))
    return form_page(form, ip_sets.get(set_id))


@bp.post("/<set_id>/delete")
@page_can(WRITE)
def delete(set_id):
    ip_set = ip_sets.get(set_id)
    name = ip_set.name
    ip_sets.delete(ip_set)
    say(f"The set {name} is removed.")
    return go(url_for(".index"))


@bp.post("/<set_id>/entries")
@page_can(WRITE)
def add(set_id):
    """Adds what can be added; what cannot is named with the reason."""
    ip_set, form = ip_sets.get(set_id), Form(IpSetBulk)
    if not form.submit(lambda cidrs: ip_sets.add_many(ip_set, cidrs, actor=actor())):
        return shown(set_id, form, "entries")
    made, wrong = form.result
    sentence = f"{len(made)} added." + "".join(f" {cidr}: {message}" for cidr, message in wrong[:5])
    return did(sentence, url_for(".show", set_id=set_id), "warning" if wrong else "success")


@bp.post("/<set_id>/entry/<entry_id>/delete")
@page_can(WRITE)
def remove(set_id, entry_id):
    ip_sets.remove(ip_sets.get(set_id), entry_id, actor=actor())
    return did("The network is removed.", url_for(".show", set_id=set_id))
