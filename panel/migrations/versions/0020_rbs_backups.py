"""Snapshots of backups on remote backup servers."""

import sqlalchemy as sa
from alembic import op

revision = "0020_rbs_backups"
down_revision = "0019_backup_restore_tests"

INDEX_COLUMNS = (["account_id", "rbs_backup_time", "id"], ["rbs_backup_time", "id"])


def upgrade():
    with op.batch_alter_table("instance_backups") as table:
        table.add_column(sa.Column("rbs_namespace", sa.String(length=256), nullable=True))
        table.add_column(sa.Column("rbs_backup_id", sa.String(length=64), nullable=True))
        table.add_column(sa.Column("rbs_backup_time", sa.BigInteger(), nullable=True))
        table.add_column(sa.Column("based_on_backup_id", sa.String(length=36), nullable=True))
        table.add_column(sa.Column("based_on_rbs_backup_time", sa.BigInteger(), nullable=True))
    for columns in INDEX_COLUMNS:
        op.create_index(f"ix_instance_backups_{'_'.join(columns)}", "instance_backups", columns)


def downgrade():
    for columns in INDEX_COLUMNS:
        op.drop_index(f"ix_instance_backups_{'_'.join(columns)}", "instance_backups")
    with op.batch_alter_table("instance_backups") as table:
        for name in (
            "based_on_rbs_backup_time",
            "based_on_backup_id",
            "rbs_backup_time",
            "rbs_backup_id",
            "rbs_namespace",
        ):
            table.drop_column(name)
