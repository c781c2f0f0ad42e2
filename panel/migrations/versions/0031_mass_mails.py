"""Mass mails with their recipients, and the log of mails."""

import sqlalchemy as sa
from alembic import op

revision = "0031_mass_mails"
down_revision = "0030_announcements"


def upgrade():
    op.create_table('mail_log',
    sa.Column('id', sa.String(length=36), nullable=False),
    sa.Column('recipient', sa.String(length=255), nullable=False),
    sa.Column('template', sa.String(length=64), nullable=False),
    sa.Column('subject', sa.String(length=255), nullable=False),
    sa.Column('status', sa.String(length=16), nullable=False),
    sa.Column('attempts', sa.Integer(), nullable=False),
    sa.Column('error', sa.Text(), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_mail_log'))
    )
    with op.batch_alter_table('mail_log', schema=None) as batch_op:
        batch_op.create_index('ix_mail_log_created_at', ['created_at'], unique=False)

    op.create_table('mass_mails',
    sa.Column('id', sa.String(length=36), nullable=False),
    sa.Column('name', sa.String(length=255), nullable=False),
    sa.Column('text', sa.Text(), nullable=False),
    sa.Column('group_id', sa.String(length=36), nullable=True),
    sa.Column('status', sa.String(length=16), nullable=False),
    sa.Column('mails_per_minute', sa.Integer(), nullable=False),
    sa.Column('total', sa.Integer(), nullable=False),
    sa.Column('queued', sa.Integer(), nullable=False),
    sa.Column('last_batch_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('started_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('finished_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('updated_at', sa.DateTime(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['group_id'], ['hypervisor_groups.id'], name=op.f('fk_mass_mails_group_id_hypervisor_groups'), ondelete='set null'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_mass_mails'))
    )
    with op.batch_alter_table('mass_mails', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_mass_mails_group_id'), ['group_id'], unique=False)
        batch_op.create_index('ix_mass_mails_status', ['status', 'id'], unique=False)

    op.create_table('mass_mail_recipients',
    sa.Column('mass_mail_id', sa.String(length=36), nullable=False),
    sa.Column('account_id', sa.String(length=36), nullable=False),
    sa.Column('queued_at', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['account_id'], ['accounts.id'], name=op.f('fk_mass_mail_recipients_account_id_accounts'), ondelete='cascade'),
    sa.ForeignKeyConstraint(['mass_mail_id'], ['mass_mails.id'], name=op.f('fk_mass_mail_recipients_mass_mail_id_mass_mails'), ondelete='cascade'),
    sa.PrimaryKeyConstraint('mass_mail_id', 'account_id', name=op.f('pk_mass_mail_recipients'))
    )
    with op.batch_alter_table('mass_mail_recipients', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_mass_mail_recipients_account_id'), ['account_id'], unique=False)
        batch_op.create_index('ix_mass_mail_recipients_unqueued', ['mass_mail_id', 'account_id'], unique=False, sqlite_where=sa.text('queued_at is null'), postgresql_where=sa.text('queued_at is null'))



def downgrade():
    with op.batch_alter_table('mass_mail_recipients', schema=None) as batch_op:
        batch_op.drop_index('ix_mass_mail_recipients_unqueued', sqlite_where=sa.text('queued_at is null'), postgresql_where=sa.text('queued_at is null'))
        batch_op.drop_index(batch_op.f('ix_mass_mail_recipients_account_id'))

    op.drop_table('mass_mail_recipients')
    with op.batch_alter_table('mass_mails', schema=None) as batch_op:
        batch_op.drop_index('ix_mass_mails_status')
        batch_op.drop_index(batch_op.f('ix_mass_mails_group_id'))

    op.drop_table('mass_mails')
    with op.batch_alter_table('mail_log', schema=None) as batch_op:
        batch_op.drop_index('ix_mail_log_created_at')

    op.drop_table('mail_log')
