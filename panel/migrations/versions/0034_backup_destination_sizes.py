"""What backup destinations have at the end of each day."""

import sqlalchemy as sa
from alembic import op

revision = "0034_backup_destination_sizes"
down_revision = "0033_address_log"


def upgrade():
    op.create_table(
        "backup_destination_sizes",
        sa.Column("destination_id", sa.String(length=36), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("stored_bytes", sa.BigInteger(), nullable=False),
        sa.Column("used_bytes", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["destination_id"],
            ["backup_destinations.id"],
            name=op.f("fk_backup_destination_sizes_destination_id_backup_destinations"),
            ondelete="cascade",
        ),
        sa.PrimaryKeyConstraint("destination_id", "day", name=op.f("pk_backup_destination_sizes")),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_backup_destination_sizes_day"), "backup_destination_sizes", ["day"])


def downgrade():
    op.drop_table("backup_destination_sizes")
