"""Customers, and the operators among them."""

from flask import Blueprint, request, url_for

from panel.auth.browser import page_can
from panel.forms import Form
from panel.htmx import go, render, say
from panel.paging import Page
from panel.schemas.accounts import AccountIn
from panel.services import accounts, instances

bp = Blueprint("admin_accounts", __name__, url_prefix="/admin/customers")
READ, WRITE = "admin:accounts:read", "admin:accounts:write"


@bp.get("")
@page_can(READ)
def index():
    search = request.args.get("search", "")[:255]
    page = Page(accounts.listing(search))
    accounts.weigh(page.rows)
    return render("admin/accounts/index.html", "rows", page=page, search=search)


@bp.get("/new")
@page_can(WRITE)
def new():
    return render("admin/accounts/new.html", form=Form(AccountIn, known={"timezone": "UTC"}))


@bp.post("/new")
@page_can(WRITE)
def create():
    form = Form(AccountIn)
    if form.submit(accounts.create):
        say(f"{form.result.email} is added.")
        return go(url_for(".show", account_id=form.result.id))
    return render("admin/accounts/new.html", "form", status=form.status, form=form)


@bp.get("/<account_id>")
@page_can(READ)
def show(account_id):
    account = accounts.get(account_id)
    return render("admin/accounts/show.html", "rows", account=account, page=Page(instances.listing(account)))
