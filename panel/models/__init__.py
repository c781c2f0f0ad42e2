"""The tables, one module for each resource."""

from panel.models import allocations  # adds columns to the other models
from panel.models.accounts import Account, LoginSession
from panel.models.acme import AcmeAccount, AcmeChallenge
from panel.models.address_log import AddressLogEntry
from panel.models.alert_rules import AlertEvent, AlertRule, AlertState
from panel.models.announcements import Announcement, AnnouncementDismissal
from panel.models.audit import AuditEntry
from panel.models.backup_copies import BackupCopy
from panel.models.backup_destinations import BackupDestination, BackupDestinationSize, BackupRepository
from panel.models.backup_files import BackupFileRequest, BackupFileSession
from panel.models.backup_policies import BackupPolicy, BackupPolicyInstance
from panel.models.backup_restore_tests import BackupRestoreTest
from panel.models.backup_usage import ManagedBackupUsage
from panel.models.billing import CreditLedgerEntry, MeteringRecord, UsageHour, UsageMonth
from panel.models.brands import Brand, BrandImage
from panel.models.certificates import Certificate
from panel.models.consoles import ConsoleSession
from panel.models.docker_deployments import DockerDeployment, DockerEngine
from panel.models.events import Event
from panel.models.factors import KnownDevice, OneTimeToken, Passkey, RecoveryCode
from panel.models.forges import Forge
from panel.models.group_grants import LocationGrant
from panel.models.guests import GuestInfo
from panel.models.hypervisor_outages import HypervisorOutage
from panel.models.hypervisors import Hypervisor, HypervisorGroup, Storage
from panel.models.idempotency import IdempotencyKey
from panel.models.image_catalog import CatalogImage
from panel.models.images import Image, ImageCopy
from panel.models.inbox import InboxCause, InboxMessage, InboxPreference
from panel.models.installation import InstallationValue
from panel.models.installation_backups import InstallationBackup, InstallationBackupSettings
from panel.models.instance_backups import InstanceBackup
from panel.models.instances import Disk, Instance, Interface
from panel.models.ip_sets import IpSet, IpSetEntry
from panel.models.isos import Iso, MediaDownload
from panel.models.mail_templates import MailTemplate
from panel.models.mails import Mail, MailLogEntry
from panel.models.mass_mail_templates import MassMailTemplate
from panel.models.mass_mails import MassMail, MassMailRecipient
from panel.models.metrics import HypervisorMetric, InstanceMetric, LocationAllocation, StorageMetric, SubnetMetric
from panel.models.microvm_api_keys import MicrovmApiKey
from panel.models.microvm_connectors import MicrovmConnector
from panel.models.microvm_image_builds import MicrovmImageBuild
from panel.models.microvm_pools import MicrovmPool, MicrovmPoolMember
from panel.models.microvm_reports import MicrovmGuestSample, MicrovmLogEntry
from panel.models.microvm_settings import MicrovmSettings
from panel.models.microvms import Microvm, MicrovmImage, MicrovmProfile, MicrovmSnapshot
from panel.models.migrations import Migration
from panel.models.notification_channels import AlertNotification, NotificationChannel
from panel.models.operator_roles import OperatorRole
from panel.models.plans import Plan, PlanGroup
from panel.models.projects import Project
from panel.models.rescues import Rescue
from panel.models.resource_packs import ResourcePack
from panel.models.saved_filters import SavedFilter
from panel.models.security_groups import SecurityGroup, SecurityGroupMember, SecurityRule
from panel.models.settings import Setting
from panel.models.snapshots import Snapshot
from panel.models.ssh_keys import SshKey
from panel.models.subnets import Address, Subnet
from panel.models.tasks import Task, TaskLog
from panel.models.team import Member, ResourceGrant, Role
from panel.models.tokens import Token
from panel.models.traffic import MonthlyTraffic
from panel.models.user_scripts import UserScript
from panel.models.volumes import Volume, VolumePlan, VolumePlanGroup, VolumeSnapshot
from panel.models.webhooks import WebhookDelivery, WebhookSubscription
