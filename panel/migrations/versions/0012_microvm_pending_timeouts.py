"""Time-outs of micro VMs that count from when the guest can be used."""

import sqlalchemy as sa
from alembic import op

revision = "0012_microvm_pending_timeouts"
down_revision = "0011_microvm_guest_reports"


def upgrade():
    with op.batch_alter_table("microvms") as batch:
        batch.add_column(sa.Column("is_timeout_pending", sa.Boolean(), nullable=False, server_default=sa.false()))
    with op.batch_alter_table("microvms") as batch:
        batch.alter_column("is_timeout_pending", server_default=None)


def downgrade():
    with op.batch_alter_table("microvms") as batch:
        batch.drop_column("is_timeout_pending")
