"""Certificates: what proves to browsers that a domain is the customer's."""

from urllib.parse import urlsplit

from flask import Blueprint, current_app, request, url_for

from panel.auth.browser_session import actor, page_can, viewer
from panel.schemas.certificates import STATUSES, TYPES, CertificateIn, CertificatePatch
from panel.services import account_limits, certificates
from panel.web.forms import Form
from panel.web.htmx import did, go, render, say
from panel.web.paging import Page

bp = Blueprint("certificates", __name__, url_prefix="/certificates")
FULL = "Your account may have {} certificates at most. Remove one first, or ask support for more."
VIEW, MANAGE, DELETE = "certificates.view", "certificates.manage", "certificates.delete"


def mine(certificate_id):
    return certificates.get(certificate_id, viewer())


def limit():
    """How many certificates are used of how many, and why there can be no more."""
    found = account_limits.of(viewer().id)["max_certificates"]
    full = None if found["unlimited"] or found["used"] < found["value"] else FULL.format(found["value"])
    return {"limit": found, "full": full}


def panel():
    """Where domains have to lead."""
    url = current_app.extensions["config"].public_url.rstrip("/")
    return {"panel_url": url, "panel_host": urlsplit(url).hostname}


@bp.get("")
@page_can(VIEW)
def index():
    search, status = request.args.get("search", "")[:255], request.args.get("status")
    status = status if status in STATUSES else None
    page = Page(certificates.listing(viewer(), search=search, status=status))
    return render(
        "user/certificates/index.html",
        "rows",
        page=page,
        statuses=STATUSES,
        filtered=bool(search or status),
        **limit(),
    )


@bp.get("/new")
@page_can(MANAGE)
def new():
    way = request.args.get("type")
    return new_page(Form(CertificateIn, known={"type": way if way in TYPES else "letsencrypt"}))


@bp.post("/new")
@page_can(MANAGE)
def create():
    form = Form(CertificateIn)
    if form.submit(lambda **sent: certificates.create(viewer(), actor=actor(), **sent)):
        made = form.result
        say(f"The certificate {made.name} is {'being ordered' if made.ordering else 'stored'}.")
        return go(url_for(".show", certificate_id=made.id))
    return new_page(form)


def new_page(form):
    return render("user/certificates/new.html", "form", status=form.status, form=form, **limit(), **panel())


@bp.get("/<certificate_id>")
@page_can(VIEW)
def show(certificate_id):
    row = mine(certificate_id)
    order = certificates.latest_order(row)
    return render("user/certificates/show.html", "live", certificate=row, task=order, **panel())


@bp.post("/<certificate_id>/renew")
@page_can(MANAGE)
def renew(certificate_id):
    row = certificates.renew(mine(certificate_id), actor=actor())
    return did(f"{row.name} is being ordered.", url_for(".show", certificate_id=row.id))


@bp.get("/<certificate_id>/edit")
@page_can(MANAGE)
def edit(certificate_id):
    row = mine(certificate_id)
    return edit_page(row, Form(CertificatePatch, known={"name": row.name}))


@bp.post("/<certificate_id>/edit")
@page_can(MANAGE)
def update(certificate_id):
    row, form = mine(certificate_id), Form(CertificatePatch)
    if form.submit(lambda **sent: certificates.update(row, **{name: sent[name] for name in sent if sent[name]})):
        say(f"The certificate {row.name} is changed.")
        return go(url_for(".show", certificate_id=row.id))
    return edit_page(mine(certificate_id), form)


def edit_page(row, form):
    return render("user/certificates/edit.html", "form", status=form.status, form=form, certificate=row)


@bp.post("/<certificate_id>/delete")
@page_can(DELETE)
def delete(certificate_id):
    row = mine(certificate_id)
    certificates.delete(row)
    say(f"The certificate {row.name} is removed.")
    return go(url_for(".index"))
