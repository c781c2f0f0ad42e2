"""Users: the people who sign in."""

from api import kit
from panel.schemas.accounts import AccountIn, AccountOut, AccountQuery
from panel.services import accounts

admin = kit.Admin("user", __name__, description="Users")


@admin.get("/users", op="list", can="admin:accounts:read", query=AccountQuery, out=kit.rows(AccountOut))
def listing(query):
    """List the users, newest first."""
    page, per_page = query.pop("page"), query.pop("per_page")
    found = kit.paginate(accounts.listing(**query), page, per_page, "admin")
    accounts.weigh(found["__rows__"])
    return found


@admin.post("/users", op="create", can="admin:accounts:write", body=AccountIn, out=AccountOut)
def create(body):
    """Add a user."""
    kit.say("The user is added.")
    return weighed(accounts.create(**body))


@admin.get("/user/<account_id>", op="get", can="admin:accounts:read", out=AccountOut)
def show(account_id):
    """Show a user."""
    return weighed(accounts.get(account_id))


def weighed(account):
    return accounts.weigh([account])[0]
