"""Announcements and who has dismissed them."""

import sqlalchemy as sa
from alembic import op

revision = "0030_announcements"
down_revision = "0029_inbox"


def upgrade():
    op.create_table('announcements',
    sa.Column('id', sa.String(length=36), nullable=False),
    sa.Column('kind', sa.String(length=16), nullable=False),
    sa.Column('name', sa.String(length=255), nullable=False),
    sa.Column('text', sa.Text(), nullable=False),
    sa.Column('starts_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('ends_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('group_id', sa.String(length=36), nullable=True),
    sa.Column('account_id', sa.String(length=36), nullable=True),
    sa.Column('sent_up_to', sa.String(length=36), nullable=False),
    sa.Column('sent_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('updated_at', sa.DateTime(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['account_id'], ['accounts.id'], name=op.f('fk_announcements_account_id_accounts'), ondelete='cascade'),
    sa.ForeignKeyConstraint(['group_id'], ['hypervisor_groups.id'], name=op.f('fk_announcements_group_id_hypervisor_groups'), ondelete='cascade'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_announcements'))
    )
    with op.batch_alter_table('announcements', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_announcements_account_id'), ['account_id'], unique=False)
        batch_op.create_index('ix_announcements_ends_at', ['ends_at', 'id'], unique=False)
        batch_op.create_index(batch_op.f('ix_announcements_group_id'), ['group_id'], unique=False)

    op.create_table('announcement_dismissals',
    sa.Column('announcement_id', sa.String(length=36), nullable=False),
    sa.Column('account_id', sa.String(length=36), nullable=False),
    sa.ForeignKeyConstraint(['account_id'], ['accounts.id'], name=op.f('fk_announcement_dismissals_account_id_accounts'), ondelete='cascade'),
    sa.ForeignKeyConstraint(['announcement_id'], ['announcements.id'], name=op.f('fk_announcement_dismissals_announcement_id_announcements'), ondelete='cascade'),
    sa.PrimaryKeyConstraint('announcement_id', 'account_id', name=op.f('pk_announcement_dismissals'))
    )
    with op.batch_alter_table('announcement_dismissals', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_announcement_dismissals_account_id'), ['account_id'], unique=False)



def downgrade():
    with op.batch_alter_table('announcement_dismissals', schema=None) as batch_op:
        batch_op.drop_index(batch_op.f('ix_announcement_dismissals_account_id'))

    op.drop_table('announcement_dismissals')
    with op.batch_alter_table('announcements', schema=None) as batch_op:
        batch_op.drop_index(batch_op.f('ix_announcements_group_id'))
        batch_op.drop_index('ix_announcements_ends_at')
        batch_op.drop_index(batch_op.f('ix_announcements_account_id'))

    op.drop_table('announcements')
