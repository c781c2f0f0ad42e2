"""Customers' scripts that run when a machine boots for the first time."""

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Select, or_, select
from sqlalchemy.orm import joinedload

from panel.core.db import session
from panel.core.errors import Invalid, NotFound
from panel.core.messages import get_message, message
from panel.models import Account, UserScript
from panel.schemas import cloudcfg
from panel.services.access import Access
from panel.services.search_kinds import customer_name_search, select_by_name


def listing(account: Access | Account | None = None, *, search: str | None = None) -> Select[UserScript]:
    """Select scripts: an account's own by name, else those of all, newest first. `search` looks at names and owners."""
    if account:
        return select(UserScript).where(account.visible_rows(UserScript)).order_by(UserScript.name, UserScript.id)
    query = select(UserScript).options(joinedload(UserScript.account)).order_by(UserScript.id.desc())
    if not search:
        return query
    texts = (column.icontains(search, autoescape=True) for column in (UserScript.name, Account.email))
    return query.join(Account, Account.id == UserScript.account_id).where(or_(*texts))


def get(script_id: str, account: Access | Account | None = None) -> UserScript:
    query = select(UserScript).where(UserScript.id == script_id)
    script = session.scalar(query.where(account.visible_rows(UserScript)) if account else query)
    if script is None:
        raise NotFound(message("No such user script."))
    return script


def get_chosen(
    script_ids: Collection[str], account: Access | Account | None = None, error_field: str = "user_scripts"
) -> list[UserScript]:
    """Return the scripts with these ids, in this order, without duplicates.

    With an account only its own are found; an operator may use any.
    """
    query = select(UserScript).where(UserScript.id.in_(script_ids))
    scripts = {
        row.id: row for row in session.scalars(query.where(account.visible_rows(UserScript)) if account else query)
    }
    ids = list(dict.fromkeys(script_ids))
    if len(scripts) < len(ids):
        raise Invalid(
            message("One of the user scripts does not exist."),
            **{error_field: message("There is no such script in this account.")},
        )
    return [scripts[script_id] for script_id in ids]


def create(account: Access | Account, **values: Any) -> UserScript:
    script = UserScript(account_id=account.id, **replace_nulls(values))
    ensure_valid(script)
    session.add(script)
    session.flush()
    return script


def update(script: UserScript, **changes: Any) -> UserScript:
    for field, value in replace_nulls(changes).items():
        setattr(script, field, value)
    ensure_valid(script)
    session.flush()
    return script


def replace_nulls(values: Mapping[str, Any]) -> dict[str, Any]:
    """Replace None by an empty string: the columns are not nullable."""
    return {name: "" if value is None else value for name, value in values.items()}


def ensure_valid(script: UserScript) -> None:
    """Raise Invalid for a cloud-init configuration that guests could not read."""
    if not script.is_cloud_config:
        return
    try:
        cloudcfg.parse(script.content)
    except ValueError as error:
        raise Invalid(message("The cloud-init configuration cannot be read."), content=get_message(error)) from None


def delete(script: UserScript) -> None:
    session.delete(script)


@customer_name_search("user_script", "user scripts", permission="user_scripts.view", position=31)
def select_own_by_name(access: Access, search: str) -> Select[str, str, str | None]:
    query = select_by_name(UserScript, UserScript.name, UserScript.type, search)
    return query.where(access.visible_rows(UserScript))
