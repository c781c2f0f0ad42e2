"""Logs and load of micro VMs, as their guests report them."""

import sqlalchemy as sa
from alembic import op

revision = "0011_microvm_guest_reports"
down_revision = "0010_microvm_pools"


def upgrade():
    op.create_table(
        "microvm_guest_samples",
        sa.Column("microvm_id", sa.String(length=36), nullable=False),
        sa.Column("at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("cpu_percent", sa.REAL(), nullable=False),
        *(
            sa.Column(name, sa.BigInteger(), nullable=False)
            for name in ("memory_used", "memory_total", "memory_cache", "disk_used", "disk_total")
        ),
        sa.ForeignKeyConstraint(
            ["microvm_id"],
            ["microvms.id"],
            name=op.f("fk_microvm_guest_samples_microvm_id_microvms"),
            ondelete="cascade",
        ),
        sa.PrimaryKeyConstraint("microvm_id", "at", name=op.f("pk_microvm_guest_samples")),
    )
    op.create_table(
        "microvm_log_entries",
        sa.Column("microvm_id", sa.String(length=36), nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("level", sa.String(length=8), nullable=False),
        sa.Column("logger", sa.String(length=32), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("fields", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["microvm_id"], ["microvms.id"], name=op.f("fk_microvm_log_entries_microvm_id_microvms"), ondelete="cascade"
        ),
        sa.PrimaryKeyConstraint("microvm_id", "number", name=op.f("pk_microvm_log_entries")),
    )


def downgrade():
    for table in ("microvm_log_entries", "microvm_guest_samples"):
        op.drop_table(table)
