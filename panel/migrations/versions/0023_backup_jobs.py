"""Backup jobs of hypervisor groups, and the destination of policies."""

import sqlalchemy as sa
from alembic import op

revision = "0023_backup_jobs"
down_revision = "0021_volume_backups"

REFERENCES = {
    "group_id": ("hypervisor_groups", "cascade"),
    "hypervisor_id": ("hypervisors", "cascade"),
    "plan_id": ("backup_policies", None),
    "destination_id": ("backup_destinations", None),
}
INDEXED_COLUMNS = ("hypervisor_id", "plan_id", "destination_id")


def upgrade():
    with op.batch_alter_table("backup_policies") as table:
        for column, (referred, on_delete) in REFERENCES.items():
            table.add_column(sa.Column(column, sa.String(36), nullable=True))
            name = op.f(f"fk_backup_policies_{column}_{referred}")
            table.create_foreign_key(name, referred, [column], ["id"], ondelete=on_delete)
        table.add_column(sa.Column("enabled", sa.Boolean(), nullable=False, server_default=sa.true()))
        table.add_column(sa.Column("comment", sa.String(255), nullable=False, server_default=""))
        table.add_column(sa.Column("run_position", sa.String(36), nullable=True))
    with op.batch_alter_table("backup_policies") as table:
        table.alter_column("enabled", server_default=None)
        table.alter_column("comment", server_default=None)
    op.create_index("ix_backup_policies_group_id_name_id", "backup_policies", ["group_id", "name", "id"])
    for column in INDEXED_COLUMNS:
        op.create_index(f"ix_backup_policies_{column}", "backup_policies", [column])


def downgrade():
    for column in INDEXED_COLUMNS:
        op.drop_index(f"ix_backup_policies_{column}", "backup_policies")
    op.drop_index("ix_backup_policies_group_id_name_id", "backup_policies")
    op.execute("DELETE FROM backup_policies WHERE group_id IS NOT NULL")
    with op.batch_alter_table("backup_policies") as table:
        for column, (referred, _) in REFERENCES.items():
            table.drop_constraint(op.f(f"fk_backup_policies_{column}_{referred}"), type_="foreignkey")
            table.drop_column(column)
        for column in ("enabled", "comment", "run_position"):
            table.drop_column(column)
