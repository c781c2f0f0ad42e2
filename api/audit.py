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
    """List who did what on the whole platform, newest first.

    Entries are only ever added: the database itself refuses to change or remove one.
    """
    return kit.paginate(audit.with_full_columns(audit.listing(**query)))


@system.get(
    "/system/admin-logs/export", op="admin_logs_export", can=READ_PERMISSION, query=AuditFilter, out=kit.CSV_RESPONSE
)
def export(query):
    """Take the same along as a CSV file.

    The newest 100,000 rows, without the envelope. Values that a spreadsheet would take for a formula begin with an
    apostrophe.
    """
    return csv_export.build_csv_response(
        "audit", audit.EXPORT_COLUMNS, audit.iter_export(audit.with_full_columns(audit.listing(**query)))
    )
