"""Verification of backups, missing ones, and disks whose chains are reset."""

import sqlalchemy as sa
from alembic import op

revision = "0016_backup_verification"
down_revision = "0015_backup_policies"

IS_DAMAGED = sa.text("damaged")


def upgrade():
    for name in ("sampled_at", "verified_at"):
        op.add_column("backup_repositories", sa.Column(name, sa.DateTime(timezone=True), nullable=True))
    with op.batch_alter_table("instance_backups") as table:
        for name in ("verified_at", "missing_candidate_at", "missing_confirmed_at"):
            table.add_column(sa.Column(name, sa.DateTime(timezone=True), nullable=True))
        table.add_column(sa.Column("reset_disk_ids", sa.JSON(), server_default="[]", nullable=False))
        table.add_column(sa.Column("damaged", sa.Boolean(), server_default=sa.false(), nullable=False))
    with op.batch_alter_table("instance_backups") as table:
        table.alter_column("damaged", server_default=None)
        table.alter_column("reset_disk_ids", server_default=None)
    op.create_index(
        "ix_instance_backups_damaged_repository_id",
        "instance_backups",
        ["repository_id"],
        sqlite_where=IS_DAMAGED,
        postgresql_where=IS_DAMAGED,
    )


def downgrade():
    op.drop_index("ix_instance_backups_damaged_repository_id", "instance_backups")
    for table, names in (
        ("instance_backups", ("damaged", "reset_disk_ids", "missing_confirmed_at", "missing_candidate_at", "verified_at")),
        ("backup_repositories", ("verified_at", "sampled_at")),
    ):
        with op.batch_alter_table(table) as batch:
            for name in names:
                batch.drop_column(name)
