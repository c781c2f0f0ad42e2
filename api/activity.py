"""A customer's own audit log."""

from api import kit
from panel.auth import permissions
from panel.schemas.audit import AuditFilter, AuditOut, AuditQuery
from panel.services import audit
from panel.web import csv_export

user = kit.User("activity", __name__, description="Audit log of the account")


@user.get("/activity", op="list", can=permissions.ANY_USER, query=AuditQuery, out=kit.build_page_schema(AuditOut))
def listing(query):
    """List the audit log of the account, newest first.

    Every operation that changes something is recorded with user, source address and object. Team members see their own
    entries; the owner, and members with `team.manage` and access to all resources, see all of them. The source
    addresses of operators are hidden.
    """
    return kit.paginate(audit.with_redacted_columns(audit.listing(kit.get_current_access(), **query)))


@user.get("/activity/export", op="export", can=permissions.ANY_USER, query=AuditFilter, out=kit.CSV_RESPONSE)
def export(query):
    """Export the audit log as CSV.

    Contains the newest 100,000 entries. Values that a spreadsheet would interpret as a formula are prefixed with an
    apostrophe.
    """
    entries = audit.with_redacted_columns(audit.listing(kit.get_current_access(), **query))
    return csv_export.build_csv_response(
        "activity", audit.EXPORT_COLUMNS, audit.iter_export(entries), for_programs=True
    )
