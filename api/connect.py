"""Checking a token, the panel's version, and the logs of its mails and addresses."""

from marshmallow import fields

import panel
from api import kit
from panel.auth import permissions
from panel.schemas.address_log import AddressLogEntryOut, AddressLogQuery
from panel.schemas.base import Out, describe
from panel.schemas.mass_mails import MailLogEntryOut, MailLogQuery
from panel.services import address_log, mail_log

user = kit.User("connect", __name__, description="Token check and version")
admin = kit.Admin("system", __name__, description="Platform")


class Version(Out):
    version = fields.String(**describe("The installed platform version.", "3.3.1"))
    api_envelope = fields.String(**describe("The version of the admin envelope.", "v1"))


@user.get("/connect", op="check", can=permissions.ANY_USER, out=kit.build_result_schema(), aliases=("/connect",))
def connect():
    """Check a user token.

    Also available as `/connect`, without the prefix. Needs no scope.
    """
    return {"success": True, "message": "The token is valid."}


@user.get(
    "/version",
    op="version",
    can=permissions.ANY_USER,
    out=kit.build_wrapped_schema("data", Version),
    aliases=("/version",),
)
def user_version():
    """Get the platform version.

    Also available as `/version`, without the prefix. Needs no scope.
    """
    return {"success": True, "message": None, "data": get_platform_version()}


@admin.get("/auth", op="auth", can=permissions.ANY_ADMIN)
def auth():
    """Check an admin token.

    Returns 200 for a valid admin token. Tokens of customers and billing systems return 403.
    """
    kit.set_message("The token is valid.")


@admin.get("/system/version", op="version", can=permissions.ANY_ADMIN, out=Version)
def admin_version():
    """Get the platform version.

    Returns the same data as `GET /api/version`. Any admin token can call it.
    """
    return get_platform_version()


def get_platform_version():
    return {"version": panel.INTERFACE_VERSION, "api_envelope": "v1"}


@admin.get(
    "/system/email-log",
    op="email_log",
    can="admin:system:read",
    query=MailLogQuery,
    out=kit.build_admin_page_schema(MailLogEntryOut),
)
def list_log(query):
    """List the mails of the last 30 days, newest first.

    Contents are not stored. Mails that wait for another attempt are not in the log yet.
    """
    return kit.paginate(mail_log.listing(**query))


@admin.get(
    "/system/ip-log",
    op="ip_log",
    can="admin:system:read",
    query=AddressLogQuery,
    out=kit.build_admin_page_schema(AddressLogEntryOut),
)
def list_addresses(query):
    """List which instance and customer had an address, and when, newest assignment first.

    With `ip` and `at` it answers who had an address at a moment. Entries stay for a year after the address was
    released. For addresses that were assigned before the log existed, `assigned_at` is the time of that upgrade.
    """
    return kit.paginate(address_log.listing(**query))
