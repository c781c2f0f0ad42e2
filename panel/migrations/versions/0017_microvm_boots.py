"""When the guest of a micro VM is checked after its first boot."""

import sqlalchemy as sa
from alembic import op

revision = "0017_microvm_boots"
down_revision = "0016_backup_verification"


def upgrade():
    with op.batch_alter_table("microvms") as batch:
        batch.add_column(sa.Column("boot_ends_at", sa.DateTime(timezone=True), nullable=True))
        batch.create_index(
            "ix_microvms_boot_ends_at",
            ["boot_ends_at"],
            sqlite_where=sa.text("boot_ends_at is not null"),
            postgresql_where=sa.text("boot_ends_at is not null"),
        )


def downgrade():
    with op.batch_alter_table("microvms") as batch:
        batch.drop_index("ix_microvms_boot_ends_at")
        batch.drop_column("boot_ends_at")
