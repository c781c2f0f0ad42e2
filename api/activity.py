"""A customer's own audit log."""

from api import kit
from panel.auth import permissions
from panel.schemas.audit import AuditFilter, AuditOut, AuditQuery
from panel.services import audit
from panel.web import csv_export

user = kit.User("activity", __name__, description="Who did what")


@user.get("/activity", op="list", can=permissions.ANY_USER, query=AuditQuery, out=kit.build_page_schema(AuditOut))
def listing(query):
    """List what was done to the account's resources, newest first.

    Every operation that writes is here, with who asked, from where, and for what. A member of a team sees what the
    member did; everything is shown to the owner and to members with `team.manage` who reach all resources. From where
    the platform's own people acted is not shown.
    """
    return kit.paginate(audit.with_redacted_columns(audit.listing(kit.get_current_access(), **query)))


@user.get("/activity/export", op="export", can=permissions.ANY_USER, query=AuditFilter, out=kit.CSV_RESPONSE)
def export(query):
    """Take the same along as a CSV file.

    The newest 100,000 rows. Values that a spreadsheet would take for a formula begin with an apostrophe.
    """
    entries = audit.with_redacted_columns(audit.listing(kit.get_current_access(), **query))
    return csv_export.build_csv_response("activity", audit.EXPORT_COLUMNS, audit.iter_export(entries))
