"""Connectors of micro VMs, and accounts' settings for new ones."""

import sqlalchemy as sa
from alembic import op

revision = '0007_microvm_connectors'
down_revision = '0003_microvms'


def upgrade():
    op.create_table('microvm_settings',
    sa.Column('id', sa.String(length=36), nullable=False),
    sa.Column('account_id', sa.String(length=36), nullable=False),
    sa.Column('location_id', sa.String(length=36), nullable=True),
    sa.Column('image_id', sa.String(length=36), nullable=True),
    sa.Column('timeout_seconds', sa.Integer(), nullable=True),
    sa.Column('on_timeout', sa.String(length=8), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('updated_at', sa.DateTime(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['account_id'], ['accounts.id'], name=op.f('fk_microvm_settings_account_id_accounts'), ondelete='cascade'),
    sa.ForeignKeyConstraint(['image_id'], ['microvm_images.id'], name=op.f('fk_microvm_settings_image_id_microvm_images'), ondelete='set null'),
    sa.ForeignKeyConstraint(['location_id'], ['hypervisor_groups.id'], name=op.f('fk_microvm_settings_location_id_hypervisor_groups'), ondelete='set null'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_microvm_settings')),
    sa.UniqueConstraint('account_id', name=op.f('uq_microvm_settings_account_id'))
    )
    op.create_index(op.f('ix_microvm_settings_image_id'), 'microvm_settings', ['image_id'], unique=False)
    op.create_index(op.f('ix_microvm_settings_location_id'), 'microvm_settings', ['location_id'], unique=False)
    op.create_table('microvm_connectors',
    sa.Column('id', sa.String(length=36), nullable=False),
    sa.Column('account_id', sa.String(length=36), nullable=False),
    sa.Column('microvm_id', sa.String(length=36), nullable=False),
    sa.Column('label', sa.String(length=63), nullable=False),
    sa.Column('port', sa.Integer(), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('updated_at', sa.DateTime(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['account_id'], ['accounts.id'], name=op.f('fk_microvm_connectors_account_id_accounts'), ondelete='cascade'),
    sa.ForeignKeyConstraint(['microvm_id'], ['microvms.id'], name=op.f('fk_microvm_connectors_microvm_id_microvms'), ondelete='cascade'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_microvm_connectors')),
    sa.UniqueConstraint('label', name=op.f('uq_microvm_connectors_label'))
    )
    op.create_index('ix_microvm_connectors_account_id_id', 'microvm_connectors', ['account_id', 'id'], unique=False)
    op.create_index(op.f('ix_microvm_connectors_microvm_id'), 'microvm_connectors', ['microvm_id'], unique=False)



def downgrade():
    op.drop_table('microvm_connectors')
    op.drop_table('microvm_settings')
