"""Backups of the installation itself."""

import sqlalchemy as sa
from alembic import op

revision = "0022_installation_backups"
down_revision = "0021_volume_backups"


def upgrade():
    with op.batch_alter_table("backup_destinations") as table:
        table.add_column(sa.Column("purpose", sa.String(16), nullable=False, server_default="instances"))
    with op.batch_alter_table("backup_destinations") as table:
        table.alter_column("purpose", server_default=None)
    op.create_table(
        "installation_backups",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("destination_id", sa.String(length=36), nullable=False),
        sa.Column("is_scheduled", sa.Boolean(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("archive", sa.String(length=100), nullable=True),
        sa.Column("size", sa.BigInteger(), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["destination_id"],
            ["backup_destinations.id"],
            name=op.f("fk_installation_backups_destination_id_backup_destinations"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_installation_backups")),
    )
    columns = ["destination_id", "status", "id"]
    op.create_index("ix_installation_backups_destination_id_status_id", "installation_backups", columns)
    op.create_index("ix_installation_backups_status_id", "installation_backups", ["status", "id"])
    op.create_table(
        "installation_backup_settings",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("destination_id", sa.String(length=36), nullable=True),
        sa.Column("frequency", sa.String(length=8), nullable=False),
        sa.Column("time", sa.String(length=5), nullable=False),
        sa.Column("day", sa.Integer(), nullable=True),
        sa.Column("retention_count", sa.Integer(), nullable=False),
        sa.Column("passphrase", sa.Text(), nullable=True),
        sa.Column("passphrase_changed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("next_run_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["destination_id"],
            ["backup_destinations.id"],
            name=op.f("fk_installation_backup_settings_destination_id_backup_destinations"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_installation_backup_settings")),
    )
    op.create_index(
        op.f("ix_installation_backup_settings_destination_id"), "installation_backup_settings", ["destination_id"]
    )


def downgrade():
    op.drop_table("installation_backup_settings")
    op.drop_table("installation_backups")
    with op.batch_alter_table("backup_destinations") as table:
        table.drop_column("purpose")
