"""IP sets: named lists of networks for the rules of security groups."""

from flask import request, url_for

from panel.auth.browser_session import actor, viewer
from panel.pages.shared.area import Pages, asker, may, operating
from panel.schemas.base import Text
from panel.schemas.ip_sets import IpSetBulk, IpSetIn, IpSetPatch
from panel.services import ip_sets, owner_emails
from panel.web.forms import Form
from panel.web.htmx import did, go, render, say
from panel.web.paging import Page

PAGES = Pages()
VIEW, MANAGE, DELETE = "ip_sets.view", "ip_sets.manage", "ip_sets.delete"


class Owned(IpSetIn):
    """What operators say beside: whose it is to be."""

    owner = Text(load_default=None)


def found(set_id):
    return ip_sets.get(set_id, asker())


def changeable(set_id):
    return ip_sets.owned(set_id, asker())


@PAGES.page("GET", "", can=VIEW)
def index():
    search = request.args.get("search", "")[:255]
    page = Page(ip_sets.listing(asker(), search=search))
    ip_sets.weigh(page.rows)
    emails = owner_emails.emails(page.rows) if operating() else {}
    return render("user/ip_sets/index.html", "rows", page=page, filtered=bool(search), emails=emails)


@PAGES.page("GET", "/new", can=MANAGE)
def new():
    return form_page(Form(IpSetIn, known={"ip_version": "ipv4"}))


@PAGES.page("POST", "/new", can=MANAGE)
def create():
    form = Form(Owned if operating() else IpSetIn)
    if form.submit(make):
        say(f"The set {form.result.name} is made. Add networks to it.")
        return go(url_for(".show", set_id=form.result.id))
    return form_page(form)


def make(owner=None, **data):
    return ip_sets.create(owner_emails.named(owner) if operating() else viewer(), **data)


def form_page(form, ip_set=None):
    return render("user/ip_sets/form.html", "form", status=form.status, form=form, ip_set=ip_set)


@PAGES.page("GET", "/<set_id>", can=VIEW)
def show(set_id):
    return shown(set_id, Form(IpSetBulk), "live")


def shown(set_id, form, block):
    ip_set = ip_sets.weigh([found(set_id)])[0]
    context = {
        "ip_set": ip_set,
        "form": form,
        "no": no_change(ip_set),
        "owner": operating() and owner_emails.of(ip_set),
    }
    return render("user/ip_sets/show.html", block, status=form.status, **context)


def no_change(ip_set):
    """Why the viewer cannot change the set, or None."""
    if ip_set.is_global and not operating():
        return "This set belongs to the platform."
    return None if may(MANAGE) else "You may look at IP sets, not change them."


@PAGES.page("GET", "/<set_id>/edit", can=VIEW)
def edit(set_id):
    ip_set = found(set_id)
    return form_page(Form(IpSetPatch, known=ip_set), ip_set)


@PAGES.page("POST", "/<set_id>/edit", can=MANAGE)
def change(set_id):
    ip_set, form = changeable(set_id), Form(IpSetPatch)
    if form.submit(lambda **data: ip_sets.update(ip_set, **data)):
        say("The set is changed.")
        return go(url_for(".show", set_id=set_id))
    return form_page(form, changeable(set_id))


@PAGES.page("POST", "/<set_id>/delete", can=DELETE)
def delete(set_id):
    ip_set = changeable(set_id)
    name = ip_set.name
    ip_sets.delete(ip_set)
    say(f"The set {name} is removed.")
    return go(url_for(".index"))


@PAGES.page("POST", "/<set_id>/entries", can=MANAGE)
def add(set_id):
    """Adds what can be added; what cannot is named with the reason."""
    ip_set, form = changeable(set_id), Form(IpSetBulk)
    if not form.submit(lambda cidrs: ip_sets.add_many(ip_set, cidrs, actor=actor())):
        return shown(set_id, form, "entries")
    made, wrong = form.result
    sentence = f"{len(made)} added." + "".join(f" {cidr}: {message}" for cidr, message in wrong[:5])
    return did(sentence, url_for(".show", set_id=set_id), "warning" if wrong else None)


@PAGES.page("POST", "/<set_id>/entry/<entry_id>/delete", can=MANAGE)
def remove(set_id, entry_id):
    ip_sets.remove(changeable(set_id), entry_id, actor=actor())
    return did("The network is removed.", url_for(".show", set_id=set_id))
