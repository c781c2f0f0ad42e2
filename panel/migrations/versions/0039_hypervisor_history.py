"""When hypervisors did not answer; an index for the tasks of a hypervisor; the load of the whole host;
how full storages were; the traffic of subnets."""

from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op
from uuid_utils import uuid7

revision = "0039_hypervisor_history"
down_revision = "0038_instance_sizes"

HOST_METRIC_COLUMNS = ("host_cpu_percent", "host_cpu_percent_max", "host_memory_used", "host_memory_used_max")


def upgrade():
    outages = op.create_table('hypervisor_outages',
    sa.Column('id', sa.String(length=36), nullable=False),
    sa.Column('hypervisor_id', sa.String(length=36), nullable=False),
    sa.Column('began_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('ended_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('detail', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['hypervisor_id'], ['hypervisors.id'], name=op.f('fk_hypervisor_outages_hypervisor_id_hypervisors'), ondelete='cascade'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_hypervisor_outages'))
    )
    with op.batch_alter_table('hypervisor_outages', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_hypervisor_outages_ended_at'), ['ended_at'], unique=False)
        batch_op.create_index('ix_hypervisor_outages_hypervisor_id_id', ['hypervisor_id', 'id'], unique=False)
    add_present_outages(outages)
    with op.batch_alter_table('tasks', schema=None) as batch_op:
        batch_op.create_index('ix_tasks_hypervisor_id_id', ['hypervisor_id', 'id'], unique=False)
    with op.batch_alter_table('hypervisor_metrics', schema=None) as batch_op:
        for name in HOST_METRIC_COLUMNS:
            batch_op.add_column(sa.Column(name, sa.REAL(), nullable=True))
    op.create_table('subnet_metrics',
    sa.Column('subnet_id', sa.String(length=36), nullable=False),
    sa.Column('hypervisor_id', sa.String(length=36), nullable=False),
    sa.Column('step', sa.SmallInteger(), autoincrement=False, nullable=False),
    sa.Column('slot', sa.SmallInteger(), autoincrement=False, nullable=False),
    sa.Column('at', sa.BigInteger(), nullable=False),
    sa.Column('received', sa.BigInteger(), nullable=False),
    sa.Column('sent', sa.BigInteger(), nullable=False),
    sa.Column('seconds', sa.Double(), nullable=False),
    sa.ForeignKeyConstraint(['hypervisor_id'], ['hypervisors.id'], name=op.f('fk_subnet_metrics_hypervisor_id_hypervisors'), ondelete='cascade'),
    sa.ForeignKeyConstraint(['subnet_id'], ['subnets.id'], name=op.f('fk_subnet_metrics_subnet_id_subnets'), ondelete='cascade'),
    sa.PrimaryKeyConstraint('subnet_id', 'hypervisor_id', 'step', 'slot', name=op.f('pk_subnet_metrics')),
    sqlite_with_rowid=False, postgresql_with={'fillfactor': 70}
    )
    with op.batch_alter_table('subnet_metrics', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_subnet_metrics_hypervisor_id'), ['hypervisor_id'], unique=False)
    op.create_table('storage_metrics',
    sa.Column('storage_id', sa.String(length=36), nullable=False),
    sa.Column('step', sa.Integer(), autoincrement=False, nullable=False),
    sa.Column('slot', sa.SmallInteger(), autoincrement=False, nullable=False),
    sa.Column('at', sa.BigInteger(), nullable=False),
    sa.Column('capacity', sa.REAL(), nullable=False),
    sa.Column('used_space', sa.REAL(), nullable=False),
    sa.Column('allocated', sa.REAL(), nullable=False),
    sa.ForeignKeyConstraint(['storage_id'], ['storages.id'], name=op.f('fk_storage_metrics_storage_id_storages'), ondelete='cascade'),
    sa.PrimaryKeyConstraint('storage_id', 'step', 'slot', name=op.f('pk_storage_metrics')),
    sqlite_with_rowid=False, postgresql_with={'fillfactor': 70}
    )


def add_present_outages(outages):
    """Begin an outage of each hypervisor that is down, with its last answer."""
    columns = ("id", sa.String()), ("status", sa.String()), ("status_detail", sa.Text())
    seen_at = sa.column("seen_at", sa.DateTime(timezone=True))
    hypervisors = sa.table("hypervisors", *(sa.column(*column) for column in columns), seen_at)
    down = op.get_bind().execute(sa.select(hypervisors).where(hypervisors.c.status == "down")).all()
    if down:
        op.bulk_insert(outages, [
            {"id": str(uuid7()), "hypervisor_id": row.id, "began_at": row.seen_at or datetime.now(UTC), "detail": row.status_detail or ""}
            for row in down
        ])


def downgrade():
    op.drop_table('storage_metrics')
    op.drop_table('subnet_metrics')
    with op.batch_alter_table('hypervisor_metrics', schema=None) as batch_op:
        for name in HOST_METRIC_COLUMNS:
            batch_op.drop_column(name)
    with op.batch_alter_table('tasks', schema=None) as batch_op:
        batch_op.drop_index('ix_tasks_hypervisor_id_id')
    op.drop_table('hypervisor_outages')
