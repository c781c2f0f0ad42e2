"""Customers, their teams, and the operators among them."""

from secrets import token_urlsafe

from flask import Blueprint, request, url_for

from panel.auth import login
from panel.auth.browser_session import me, page_can, require
from panel.core.errors import Invalid
from panel.schemas.accounts import AccountIn, AccountPatch, Promotion, Suspension
from panel.schemas.base import Name
from panel.services import account_limits, accounts, factors, instances, operators, passwords, sessions, team, tokens
from panel.web.forms import Form
from panel.web.htmx import did, go, render, say
from panel.web.paging import Page

bp = Blueprint("admin_accounts", __name__, url_prefix="/admin/customers")
READ, WRITE, OPERATORS = "admin:accounts:read", "admin:accounts:write", "admin:operators:write"
ROLES = (
    ("full", "Full", "May do everything."),
    ("support", "Support", "Sees everything; looks after customers, their instances and tasks."),
    ("read_only", "Read only", "Sees everything, changes nothing."),
)


class Settings(AccountPatch):
    """On the page a name that is emptied is meant to be empty."""

    first_name = Name(least=0, most=100, load_default="")
    last_name = Name(least=0, most=100, load_default="")


@bp.get("")
@page_can(READ)
def index():
    kind = request.args.get("kind") if request.args.get("kind") in accounts.KINDS else None
    suspended = {"yes": True, "no": False}.get(request.args.get("suspended"))
    page = Page(accounts.listing(request.args.get("search", "")[:255], kind=kind, suspended=suspended))
    accounts.weigh(page.rows)
    return render("admin/accounts/index.html", "rows", page=page, roles=dict((role[:2]) for role in ROLES))


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


def weighed(account_id):
    return accounts.weigh([accounts.get(account_id)])[0]


def theirs(account_id):
    """The account, for changing it. Of operators only by who may change operators: support could else take over one
    who may do more."""
    account = weighed(account_id)
    if account.is_admin:
        require(OPERATORS)
    return account


@bp.get("/<account_id>")
@page_can(READ)
def show(account_id):
    account = weighed(account_id)
    return render("admin/accounts/show.html", "rows", account=account, page=Page(instances.listing(account)))


@bp.get("/<account_id>/team")
@page_can(READ)
def members(account_id):
    account = weighed(account_id)
    return render("admin/accounts/team.html", "rows", account=account, page=Page(team.listing(account)))


@bp.get("/<account_id>/settings")
@page_can(READ)
def settings(account_id):
    account = weighed(account_id)
    form = Form(Settings, known=account)
    return render("admin/accounts/settings.html", account=account, form=form, limits=account_limits.COUNTED)


@bp.post("/<account_id>/settings")
@page_can(WRITE)
def change(account_id):
    account = theirs(account_id)
    form = Form(Settings)
    if form.submit(lambda **data: accounts.update(account, **data)):
        say("The customer is changed.")
        return go(url_for(".settings", account_id=account_id))
    shown = {"account": weighed(account_id), "form": form, "limits": account_limits.COUNTED}
    return render("admin/accounts/settings.html", "form", status=form.status, **shown)


@bp.get("/<account_id>/access")
@page_can(READ)
def access(account_id):
    return access_page(weighed(account_id), Form(Suspension))


def access_page(account, form, block=None):
    facts = {
        "sessions": Page(sessions.listing(account)).total,
        "tokens": Page(tokens.of_account(account)).total,
        "any_factor": factors.any_of(account),
        "passkey": factors.has_passkey(account),
        "belongings": accounts.belongings(account),
    }
    found = {"account": account, "form": form, "roles": ROLES, **facts}
    return render("admin/accounts/access.html", block, status=form.status, **found)


@bp.post("/<account_id>/suspend")
@page_can(WRITE)
def suspend(account_id):
    account = theirs(account_id)
    if account == me():
        raise Invalid("You cannot suspend yourself: you could not end it.")
    form = Form(Suspension)
    if form.submit(lambda reason: accounts.suspend(account, reason)):
        say(f"{account.email} is suspended.")
        return go(url_for(".access", account_id=account_id))
    return access_page(weighed(account_id), form, "form")


@bp.post("/<account_id>/unsuspend")
@page_can(WRITE)
def unsuspend(account_id):
    account = accounts.unsuspend(theirs(account_id))
    say(f"{account.email} is no longer suspended.")
    return go(url_for(".access", account_id=account_id))


@bp.post("/<account_id>/password")
@page_can(WRITE)
def reset_password(account_id):
    """The password is in this answer and nowhere else, so there is no redirect."""
    account, password = theirs(account_id), token_urlsafe(15)
    passwords.change(account, password, login.source())
    return render("admin/accounts/password.html", account=account, password=password)


@bp.post("/<account_id>/factors")
@page_can(WRITE)
def reset_factors(account_id):
    account = theirs(account_id)
    factors.reset(account, login.source())
    return did(f"Every second factor of {account.email} is removed.", url_for(".access", account_id=account_id))


@bp.post("/<account_id>/sessions")
@page_can(WRITE)
def end_sessions(account_id):
    account = theirs(account_id)
    sessions.end_others(account)
    return did(f"{account.email} is signed out everywhere.", url_for(".access", account_id=account_id))


@bp.post("/<account_id>/role")
@page_can(OPERATORS)
def promote(account_id):
    form = Form(Promotion)
    if not form.submit(lambda role: operators.promote(accounts.get(account_id), role)):
        raise Invalid(" ".join(form.errors.values()))
    say("The role is changed. It counts from now on.")
    return go(url_for(".access", account_id=account_id))


@bp.post("/<account_id>/delete")
@page_can(WRITE)
def delete(account_id):
    account = theirs(account_id)
    if request.form.get("typed", "").strip().lower() != account.email:
        wrong = f"Type {account.email} to confirm. Nothing was removed."
        raise Invalid(wrong, typed=wrong)
    if account == me():
        raise Invalid("You cannot remove yourself.")
    accounts.remove(account)
    say(f"{account.email} is removed.")
    return go(url_for(".index"))
