"""TLS certificates for the customer's domains."""

from urllib.parse import urlsplit

from flask import Blueprint, current_app, request, url_for

from panel.auth.browser_session import get_current_access, get_current_actor, require_page_permission
from panel.models import Certificate
from panel.schemas.certificates import CERTIFICATE_STATUSES, CERTIFICATE_TYPES, CertificateIn, CertificatePatch
from panel.services import account_limits, certificates
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry, PaletteAction, SearchResults
from panel.web.paging import Page
from panel.web.translation import gettext as _
from panel.web.translation import ngettext

bp = Blueprint("certificates", __name__, url_prefix="/certificates")
NAVIGATION = NavigationEntry(
    "network",
    "Certificates",
    "certificates.index",
    icon="certificate",
    permission="certificates.view",
    position=30,
    select_attention=certificates.select_with_problems,
)
PALETTE_ACTIONS = (
    PaletteAction(
        "Add certificate", "certificates.new", icon="certificate", permission="certificates.manage", position=60
    ),
)
SEARCH_RESULTS = (
    SearchResults(
        "certificate",
        "Certificates",
        icon="certificate",
        url=lambda row: url_for("certificates.show", certificate_id=row.id),
    ),
)
VIEW_PERMISSION, MANAGE_PERMISSION, DELETE_PERMISSION = (
    "certificates.view",
    "certificates.manage",
    "certificates.delete",
)


def get_own(certificate_id):
    return certificates.get(certificate_id, get_current_access())


def get_certificate_limit():
    """Return used and maximum certificates, and the reason why no more can be created."""
    limit = account_limits.describe_limits(get_current_access().id)["max_certificates"]
    full = None
    if not limit["unlimited"] and limit["used"] >= limit["value"]:
        full = ngettext(
            "Your account is limited to %(num)s certificate. Delete one first, or contact support to raise the limit.",
            "Your account is limited to %(num)s certificates. Delete one first, or contact support to raise the limit.",
            limit["value"],
        )
    return {"limit": limit, "full": full}


def get_panel_address():
    """Return the panel's URL and host name. Domains must resolve to this host."""
    url = current_app.extensions["config"].public_url.rstrip("/")
    return {"panel_url": url, "panel_host": urlsplit(url).hostname}


ORDERS = {"name": Certificate.name, "end": Certificate.not_after}


@bp.get("")
@require_page_permission(VIEW_PERMISSION)
def index():
    search, status = request.args.get("search", "")[:255], request.args.get("status")
    status = status if status in CERTIFICATE_STATUSES else None
    page = Page(certificates.listing(get_current_access(), search=search, status=status), orders=ORDERS)
    return render(
        "customer/certificates/index.html",
        "rows",
        page=page,
        statuses=CERTIFICATE_STATUSES,
        filtered=bool(search or status),
        **get_certificate_limit(),
    )


@bp.get("/new")
@require_page_permission(MANAGE_PERMISSION)
def new():
    certificate_type = request.args.get("type")
    return new_page(
        Form(
            CertificateIn,
            initial={"type": certificate_type if certificate_type in CERTIFICATE_TYPES else "letsencrypt"},
        )
    )


@bp.post("/new")
@require_page_permission(MANAGE_PERMISSION)
def create():
    form = Form(CertificateIn)
    if form.submit(lambda **values: certificates.create(get_current_access(), actor=get_current_actor(), **values)):
        certificate = form.result
        if certificate.ordering:
            flash_message(_("Order of %(name)s requested.", name=certificate.name))
        else:
            flash_message(_("Certificate %(name)s added.", name=certificate.name))
        return redirect_to(url_for(".show", certificate_id=certificate.id))
    return new_page(form)


def new_page(form):
    return render(
        "customer/certificates/new.html",
        "form",
        status=form.status,
        form=form,
        **get_certificate_limit(),
        **get_panel_address(),
    )


@bp.get("/<certificate_id>")
@require_page_permission(VIEW_PERMISSION)
def show(certificate_id):
    row = get_own(certificate_id)
    order = certificates.find_latest_order(row)
    return render("customer/certificates/show.html", "live", certificate=row, task=order, **get_panel_address())


@bp.post("/<certificate_id>/renew")
@require_page_permission(MANAGE_PERMISSION)
def renew(certificate_id):
    row = certificates.renew(get_own(certificate_id), actor=get_current_actor())
    return build_action_response(
        _("Order of %(name)s requested.", name=row.name), url_for(".show", certificate_id=row.id)
    )


@bp.get("/<certificate_id>/edit")
@require_page_permission(MANAGE_PERMISSION)
def edit(certificate_id):
    row = get_own(certificate_id)
    return edit_page(row, Form(CertificatePatch, initial={"name": row.name}))


@bp.post("/<certificate_id>/edit")
@require_page_permission(MANAGE_PERMISSION)
def update(certificate_id):
    row, form = get_own(certificate_id), Form(CertificatePatch)
    if form.submit(
        lambda **values: certificates.update(row, **{name: values[name] for name in values if values[name]})
    ):
        flash_message(_("Certificate %(name)s saved.", name=row.name))
        return redirect_to(url_for(".show", certificate_id=row.id))
    return edit_page(get_own(certificate_id), form)


def edit_page(row, form):
    return render("customer/certificates/edit.html", "form", status=form.status, form=form, certificate=row)


@bp.post("/<certificate_id>/delete")
@require_page_permission(DELETE_PERMISSION)
def delete(certificate_id):
    row = get_own(certificate_id)
    certificates.delete(row)
    flash_message(_("Certificate %(name)s deleted.", name=row.name))
    return redirect_to(url_for(".index"))
