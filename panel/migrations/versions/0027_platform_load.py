"""Metrics of hypervisors, what was allocated of locations each day, and who hid the checklists."""

import sqlalchemy as sa
from alembic import op

revision = "0027_platform_load"
down_revision = "0026_user_language"

METRICS = (
    "cpu_percent",
    "memory_used",
    "network_receive_mbps",
    "network_transmit_mbps",
    "disk_read_bytes",
    "disk_write_bytes",
    "disk_read_iops",
    "disk_write_iops",
)
CHECKLISTS = ("checklist", "platform_checklist")


def upgrade():
    op.create_table(
        "hypervisor_metrics",
        sa.Column("hypervisor_id", sa.String(length=36), nullable=False),
        sa.Column("step", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("slot", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        *(sa.Column(f"{name}{end}", sa.REAL(), nullable=False) for name in METRICS for end in ("", "_max")),
        sa.ForeignKeyConstraint(
            ["hypervisor_id"],
            ["hypervisors.id"],
            name=op.f("fk_hypervisor_metrics_hypervisor_id_hypervisors"),
            ondelete="cascade",
        ),
        sa.PrimaryKeyConstraint("hypervisor_id", "step", "slot", name=op.f("pk_hypervisor_metrics")),
        sqlite_with_rowid=False,
        postgresql_with={"fillfactor": 70},
    )
    op.create_table(
        "location_allocations",
        sa.Column("group_id", sa.String(length=36), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("cpu_cores", sa.Integer(), nullable=False),
        sa.Column("ram", sa.BigInteger(), nullable=False),
        sa.Column("storage", sa.BigInteger(), nullable=False),
        sa.Column("addresses", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["group_id"],
            ["hypervisor_groups.id"],
            name=op.f("fk_location_allocations_group_id_hypervisor_groups"),
            ondelete="cascade",
        ),
        sa.PrimaryKeyConstraint("group_id", "day", name=op.f("pk_location_allocations")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_metering_records_account_id_open",
        "metering_records",
        ["account_id"],
        sqlite_where=sa.text("not closed"),
        postgresql_where=sa.text("not closed"),
    )
    with op.batch_alter_table("accounts") as table:
        for name in CHECKLISTS:
            table.add_column(sa.Column(f"{name}_dismissed_at", sa.DateTime(timezone=True), nullable=True))


def downgrade():
    with op.batch_alter_table("accounts") as table:
        for name in CHECKLISTS:
            table.drop_column(f"{name}_dismissed_at")
    op.drop_index("ix_metering_records_account_id_open", "metering_records")
    op.drop_table("location_allocations")
    op.drop_table("hypervisor_metrics")
