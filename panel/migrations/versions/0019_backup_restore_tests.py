"""Tests whether backups can be restored."""

import sqlalchemy as sa
from alembic import op

revision = "0019_backup_restore_tests"
down_revision = "0018_backup_files"

TABLE = "backup_restore_tests"


def make_foreign_key(column, target):
    name = op.f(f"fk_{TABLE}_{column}_{target}")
    return sa.ForeignKeyConstraint([column], [f"{target}.id"], name=name, ondelete="cascade")


def upgrade():
    op.create_table(
        TABLE,
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("account_id", sa.String(36), nullable=False),
        sa.Column("instance_id", sa.String(36), nullable=False),
        sa.Column("backup_id", sa.String(36), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("backup_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("hypervisor_id", sa.String(36), nullable=False),
        sa.Column("storage_id", sa.String(36), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("evidence", sa.String(16), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("boot_seconds", sa.Integer(), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("screenshot", sa.LargeBinary(), nullable=True),
        sa.Column("has_screenshot", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        make_foreign_key("account_id", "accounts"),
        make_foreign_key("hypervisor_id", "hypervisors"),
        make_foreign_key("storage_id", "storages"),
        sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{TABLE}")),
    )
    for columns in (
        ["account_id"],
        ["hypervisor_id"],
        ["storage_id"],
        ["instance_id", "id"],
        ["backup_id", "id"],
        ["status", "id"],
    ):
        op.create_index(f"ix_{TABLE}_{'_'.join(columns)}", TABLE, columns)


def downgrade():
    op.drop_table(TABLE)
