"""Reading single files of backups."""

import sqlalchemy as sa
from alembic import op

revision = "0018_backup_files"
down_revision = "0017_microvm_boots"


def make_foreign_key(table, column, target):
    return sa.ForeignKeyConstraint(
        [column], [f"{target}.id"], name=op.f(f"fk_{table}_{column}_{target}"), ondelete="cascade"
    )


def upgrade():
    op.create_table(
        "backup_file_sessions",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("account_id", sa.String(36), nullable=False),
        sa.Column("backup_id", sa.String(36), nullable=False),
        sa.Column("instance_id", sa.String(36), nullable=False),
        sa.Column("hypervisor_id", sa.String(36), nullable=False),
        sa.Column("storage_id", sa.String(36), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("volumes", sa.JSON(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ends_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        make_foreign_key("backup_file_sessions", "account_id", "accounts"),
        make_foreign_key("backup_file_sessions", "hypervisor_id", "hypervisors"),
        make_foreign_key("backup_file_sessions", "storage_id", "storages"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_backup_file_sessions")),
        sa.UniqueConstraint("backup_id", name=op.f("uq_backup_file_sessions_backup_id")),
    )
    for name in ("account_id", "hypervisor_id", "storage_id", "expires_at"):
        op.create_index(f"ix_backup_file_sessions_{name}", "backup_file_sessions", [name])
    op.create_table(
        "backup_file_requests",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("session_id", sa.String(36), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("after", sa.Text(), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("requested_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("reason", sa.String(32), nullable=True),
        sa.Column("result", sa.JSON(), nullable=True),
        sa.Column("size", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        make_foreign_key("backup_file_requests", "session_id", "backup_file_sessions"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_backup_file_requests")),
        sa.UniqueConstraint("digest", name=op.f("uq_backup_file_requests_digest")),
    )
    op.create_index("ix_backup_file_requests_session_id", "backup_file_requests", ["session_id"])


def downgrade():
    op.drop_table("backup_file_requests")
    op.drop_table("backup_file_sessions")
