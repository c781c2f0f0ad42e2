"""The network of micro VMs: addresses, and what a profile says about them."""

import sqlalchemy as sa
from alembic import op

revision = "0009_microvm_network"
down_revision = "0008_microvm_image_builds"

IS_LIVE = sa.text("ended_at is null")
PROFILE_COLUMNS = {
    "address_range": (sa.String(length=18), "100.96.0.0/16"),
    "nameservers": (sa.JSON(), '["1.1.1.1", "9.9.9.9"]'),
    "refused_networks": (sa.JSON(), "[]"),
}


def upgrade():
    with op.batch_alter_table("microvm_profiles") as batch:
        for name, (kind, value) in PROFILE_COLUMNS.items():
            batch.add_column(sa.Column(name, kind, nullable=False, server_default=value))
    with op.batch_alter_table("microvm_profiles") as batch:
        for name in PROFILE_COLUMNS:
            batch.alter_column(name, server_default=None)
    with op.batch_alter_table("microvms") as batch:
        batch.add_column(sa.Column("address", sa.String(length=15), nullable=True))
    with op.batch_alter_table("microvm_image_builds") as batch:
        batch.add_column(sa.Column("address", sa.String(length=15), nullable=True))
    op.create_index(
        "uq_microvms_live_hypervisor_id_address",
        "microvms",
        ["hypervisor_id", "address"],
        unique=True,
        sqlite_where=IS_LIVE,
        postgresql_where=IS_LIVE,
    )


def downgrade():
    op.drop_index("uq_microvms_live_hypervisor_id_address", table_name="microvms")
    for table in ("microvm_image_builds", "microvms"):
        with op.batch_alter_table(table) as batch:
            batch.drop_column("address")
    with op.batch_alter_table("microvm_profiles") as batch:
        for name in PROFILE_COLUMNS:
            batch.drop_column(name)
