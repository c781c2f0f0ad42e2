"""The audit log of the whole platform."""

from api import kit
from api.connect import admin as system
from panel.schemas.audit import AdminAuditOut, AuditFilter, AuditQuery
from panel.services import audit
from panel.web import csv_export

READ_PERMISSION = "admin:audit:read"


@system.get(
    "/system/admin-logs",
    op="admin_logs",
    can=READ_PERMISSION,
    query=AuditQuery,
    out=kit.build_admin_page_schema(AdminAuditOut),
)
def listing(query):
    """List the audit log of the platform, newest first.

    Entries are append-only: the database refuses to change or delete them.
    """
    return kit.paginate(audit.with_full_columns(audit.listing(**query)))


@system.get(
    "/system/admin-logs/export", op="admin_logs_export", can=READ_PERMISSION, query=AuditFilter, out=kit.CSV_RESPONSE
)
def export(query):
    """Export the audit log as CSV.

    Contains the newest 100,000 entries, without the envelope. Values that a spreadsheet would interpret as a formula
    are prefixed with an apostrophe.
    """
    return csv_export.build_csv_response(
        "audit",
        audit.EXPORT_COLUMNS,
        audit.iter_export(audit.with_full_columns(audit.listing(**query))),
        for_programs=True,
    )
