import type { TSchema } from 'typebox';
import { BrokenAnswer } from '../../shared/attestation/broken-chains.ts';
import { ExportAnswer } from '../../shared/attestation/export.ts';
import { webhookEvents } from '../../shared/model/webhook.ts';
import {
  AccountAnswer,
  AccountCreation,
  AccountUpdate,
  NewAccountAnswer,
} from '../../shared/wire/account.ts';
import { AnswerProof } from '../../shared/wire/answer-proof.ts';
import {
  ApiKeyAnswer,
  ApiKeyCreation,
  ApiKeyDeletion,
  ApiKeyRoll,
  NewApiKeyAnswer,
} from '../../shared/wire/api-key.ts';
import { ApprovalAnswer, ApprovalDetail, ApprovalResolution } from '../../shared/wire/approval.ts';
import { AttestationAnswer, AttestationPageAnswer } from '../../shared/wire/attestation.ts';
import { ActorAnswer, AuditEntryAnswer, AuditPageAnswer } from '../../shared/wire/audit.ts';
import { Vocabulary } from '../../shared/wire/authzen-vocabulary.ts';
import { CatalogAnswer, CatalogPublication } from '../../shared/wire/catalog.ts';
import {
  ChannelAnswer,
  ChannelCreation,
  ChannelDeletion,
  ChannelFailure,
  ChannelTestAnswer,
  ChannelUpdate,
  NewChannelAnswer,
} from '../../shared/wire/channel.ts';
import { CheckBody, GateTestBody, RequestMembers } from '../../shared/wire/check.ts';
import { CheckBatchAnswer, CheckBatchBody } from '../../shared/wire/check-batch.ts';
import { GateConstraints, PassportConstraints, RequiredProof } from '../../shared/wire/constraints.ts';
import {
  BlockAnswer,
  DecisionAnswer,
  GateTestAnswer,
  PermitAnswer,
  PiiFindingAnswer,
  SuspendAnswer,
} from '../../shared/wire/decision.ts';
import {
  DecisionReceipt,
  ReceiptHistory,
  ReceiptReport,
  ReceiptShowing,
  ReceiptStatement,
  RevokedSidecarKeys,
  SidecarCertificate,
  SidecarKeyRevocation,
  SidecarKeyRevoked,
} from '../../shared/wire/decision-receipt.ts';
import { DiscoveryAnswer } from '../../shared/wire/discovery.ts';
import { ErrorAnswer } from '../../shared/wire/error.ts';
import {
  FederationAnswer,
  FederationBody,
  FederationChange,
  FederationClaims,
} from '../../shared/wire/federation.ts';
import {
  SubjectRevocation,
  TokenExplanation,
  TokenPassport,
  TokenStep,
  TokenTrial,
} from '../../shared/wire/federation-operations.ts';
import {
  GateAnswer,
  GateCreation,
  GateCreationAnswer,
  GateDeletion,
  GateListItem,
  GatePatch,
  GateWithStatsAnswer,
} from '../../shared/wire/gate.ts';
import { GateRoute } from '../../shared/wire/gate-routes.ts';
import { GateUsageAnswer, LimitUsageAnswer } from '../../shared/wire/gate-usage.ts';
import { HoldAnswer, HoldAskBody } from '../../shared/wire/hold.ts';
import { IssuerAnswer, IssuerCreation, IssuerUpdate } from '../../shared/wire/issuer.ts';
import { JwksAnswer } from '../../shared/wire/jwks.ts';
import {
  McpGuardPinAnswer,
  McpPinAnswer,
  McpPinListItem,
  McpPinResolution,
  McpToolReport,
  McpToolReportAnswer,
} from '../../shared/wire/mcp-pin.ts';
import { LoginMethodsAnswer, OidcLogin, OidcLoginBeginning, OidcLoginBegun } from '../../shared/wire/oidc.ts';
import {
  HoldExtension,
  OutcomeReport,
  PermitOutcomeAnswer,
  RefundRequest,
  ReportedOutcomeAnswer,
} from '../../shared/wire/outcome.ts';
import { PageAnswer } from '../../shared/wire/paging.ts';
import {
  PasskeyAnswer,
  PasskeyCreation,
  PasskeyLogin,
  PasskeyOptions,
  PasskeyUpdate,
} from '../../shared/wire/passkey.ts';
import {
  IssuedPassportAnswer,
  OwnerAnswer,
  PassportAnswer,
  PassportListItem,
  PassportRevocation,
  RevocationAnswer,
  VerificationAnswer,
} from '../../shared/wire/passport.ts';
import { MachineIssue, ReferenceIssue, UnattendedIssue } from '../../shared/wire/passport-issue.ts';
import { GatePolicyItem, PolicyAnswer, PolicyBody } from '../../shared/wire/policy.ts';
import { RetentionAnswer, RetentionUpdate } from '../../shared/wire/retention.ts';
import { Login, SessionAccountAnswer, SessionAnswer, SessionListItem } from '../../shared/wire/session.ts';
import { DecisionTimesAnswer, SidecarAnswer } from '../../shared/wire/sidecar.ts';
import { KeyRotation, KeyRotationAnswer } from '../../shared/wire/signing-key.ts';
import { StandingApprovalAnswer, StandingApprovalCreation } from '../../shared/wire/standing-approval.ts';
import {
  DecisionBucketAnswer,
  DecisionCountAnswer,
  DecisionStatisticsAnswer,
} from '../../shared/wire/statistics.ts';
import { TemplateAnswer, TemplateCreation } from '../../shared/wire/template.ts';
import {
  InvitationAcceptance,
  InvitedUserAnswer,
  OwnPassword,
  PasswordChange,
  TotpBegunAnswer,
  TotpConfirmation,
  TotpConfirmedAnswer,
  UserAnswer,
  UserDeletion,
  UserInvitation,
  UserUpdate,
} from '../../shared/wire/user.ts';
import {
  LimitsAnswer,
  PassportWallet,
  WalletAnswer,
  WalletCreation,
  WalletDeletion,
  WalletDetailAnswer,
  WalletLimitsBody,
  WalletPatch,
  WalletStatementAnswer,
  WalletUsageAnswer,
} from '../../shared/wire/wallet.ts';
import {
  DeliveryAnswer,
  NewWebhookAnswer,
  WebhookAnswer,
  WebhookCreation,
  WebhookDeletion,
  WebhookRecovery,
  WebhookRecoveryAnswer,
  WebhookTest,
  WebhookUpdate,
} from '../../shared/wire/webhook.ts';
import { webhookBodies } from '../../shared/wire/webhook-events.ts';
import { WhoAmIAnswer } from '../../shared/wire/who-am-i.ts';
import { ReadinessAnswer } from '../operations/routes.ts';
import { eventSchemaName } from './webhook-operations.ts';

/**
 * The schemas that have a name in the published document. They are the ones that validate; a schema without a
 * name is written out where it is used. Of two equal ones the later gives its name to both.
 */
export const namedSchemas = {
  Error: ErrorAnswer,
  ReferenceIssue,
  MachineIssue,
  UnattendedIssue,
  Passport: PassportAnswer,
  IssuedPassport: IssuedPassportAnswer,
  PassportListItem,
  PassportPage: PageAnswer(PassportListItem),
  PassportRevocation,
  Revocation: RevocationAnswer,
  Verification: VerificationAnswer,
  PassportConstraints,
  GateConstraints,
  RequiredProof,
  GateRoute,
  GateCreation,
  NewGate: GateCreationAnswer,
  GatePatch,
  Gate: GateAnswer,
  GateWithStats: GateWithStatsAnswer,
  GateListItem,
  GatePage: PageAnswer(GateListItem),
  GateDeletion,
  GatePolicy: GatePolicyItem,
  GatePolicyPage: PageAnswer(GatePolicyItem),
  PolicyBody,
  Policy: PolicyAnswer,
  CatalogPublication,
  Catalog: CatalogAnswer,
  Discovery: DiscoveryAnswer,
  Request: RequestMembers,
  GateTestRequest: GateTestBody,
  GateTest: GateTestAnswer,
  CheckBatch: CheckBatchAnswer,
  CheckBatchRequest: CheckBatchBody,
  CheckRequest: CheckBody,
  Permit: PermitAnswer,
  Suspend: SuspendAnswer,
  Block: BlockAnswer,
  Decision: DecisionAnswer,
  Receipt: DecisionReceipt,
  ReceiptStatement,
  ReceiptHistory,
  SidecarCertificate,
  PiiFinding: PiiFindingAnswer,
  ApprovalResolution,
  Approval: ApprovalAnswer,
  ApprovalDetail,
  AnswerProof,
  ApprovalPage: PageAnswer(ApprovalAnswer),
  McpPin: McpPinAnswer,
  McpPinListItem,
  McpPinPage: PageAnswer(McpPinListItem),
  McpPinResolution,
  McpGuardPin: McpGuardPinAnswer,
  McpToolReport,
  McpToolReportResult: McpToolReportAnswer,
  WalletCreation,
  WalletPatch,
  WalletLimits: LimitsAnswer,
  WalletLimitsChange: WalletLimitsBody,
  Wallet: WalletAnswer,
  WalletPage: PageAnswer(WalletAnswer),
  WalletDetail: WalletDetailAnswer,
  WalletUsage: WalletUsageAnswer,
  WalletStatement: WalletStatementAnswer,
  WalletDeletion,
  PassportWallet,
  StandingApprovalCreation,
  StandingApproval: StandingApprovalAnswer,
  StandingApprovalPage: PageAnswer(StandingApprovalAnswer),
  HoldAsk: HoldAskBody,
  PermitHold: HoldAnswer,
  OutcomeReport,
  HoldExtension,
  RefundRequest,
  PermitOutcome: PermitOutcomeAnswer,
  HoldPage: PageAnswer(PermitOutcomeAnswer),
  ReportedOutcome: ReportedOutcomeAnswer,
  ReportedOutcomePage: PageAnswer(ReportedOutcomeAnswer),
  Attestation: AttestationAnswer,
  AttestationPage: AttestationPageAnswer,
  Export: ExportAnswer,
  BrokenChain: BrokenAnswer,
  Actor: ActorAnswer,
  AuditEntry: AuditEntryAnswer,
  AuditPage: AuditPageAnswer,
  IssuerCreation,
  IssuerUpdate,
  Issuer: IssuerAnswer,
  Federation: FederationAnswer,
  FederationCreation: FederationBody,
  FederationUpdate: FederationChange,
  SubjectRevocation,
  TokenTrial,
  TokenExplanation,
  TokenStep,
  TokenPassport,
  FederationClaims,
  PassportOwner: OwnerAnswer,
  IssuerPage: PageAnswer(IssuerAnswer),
  TemplateCreation,
  Template: TemplateAnswer,
  TemplatePage: PageAnswer(TemplateAnswer),
  AuthzenVocabulary: Vocabulary,
  AuthzenResource: Vocabulary.properties.resources.items,
  AuthzenAction: Vocabulary.properties.actions.items,
  RetentionUpdate,
  Retention: RetentionAnswer,
  WhoAmI: WhoAmIAnswer,
  ApiKeyCreation,
  Roll: ApiKeyRoll,
  ApiKey: ApiKeyAnswer,
  NewApiKey: NewApiKeyAnswer,
  ApiKeyPage: PageAnswer(ApiKeyAnswer),
  ApiKeyDeletion,
  AccountCreation,
  AccountUpdate,
  Account: AccountAnswer,
  NewAccount: NewAccountAnswer,
  AccountPage: PageAnswer(AccountAnswer),
  DecisionCount: DecisionCountAnswer,
  DecisionBucket: DecisionBucketAnswer,
  DecisionStatistics: DecisionStatisticsAnswer,
  DecisionTimes: DecisionTimesAnswer,
  Sidecar: SidecarAnswer,
  SidecarPage: PageAnswer(SidecarAnswer),
  LimitUsage: LimitUsageAnswer,
  GateUsage: GateUsageAnswer,
  Login,
  SessionAccount: SessionAccountAnswer,
  Session: SessionAnswer,
  LoginMethods: LoginMethodsAnswer,
  OidcLoginBeginning,
  OidcLoginBegun,
  OidcLogin,
  SessionListItem,
  SessionPage: PageAnswer(SessionListItem),
  UserInvitation,
  UserUpdate,
  User: UserAnswer,
  UserPage: PageAnswer(UserAnswer),
  InvitedUser: InvitedUserAnswer,
  InvitationAcceptance,
  UserDeletion,
  OwnPassword,
  PasswordChange,
  TotpBegun: TotpBegunAnswer,
  TotpConfirmation,
  TotpConfirmed: TotpConfirmedAnswer,
  PasskeyOptions,
  PasskeyCreation,
  PasskeyLogin,
  PasskeyUpdate,
  Passkey: PasskeyAnswer,
  PasskeyPage: PageAnswer(PasskeyAnswer),
  ChannelCreation,
  ChannelUpdate,
  Channel: ChannelAnswer,
  NewChannel: NewChannelAnswer,
  ChannelPage: PageAnswer(ChannelAnswer),
  ChannelDeletion,
  ChannelFailure,
  ChannelTest: ChannelTestAnswer,
  WebhookCreation,
  WebhookUpdate,
  WebhookTest,
  WebhookRecovery,
  Webhook: WebhookAnswer,
  NewWebhook: NewWebhookAnswer,
  WebhookPage: PageAnswer(WebhookAnswer),
  WebhookDeletion,
  WebhookRecovered: WebhookRecoveryAnswer,
  Delivery: DeliveryAnswer,
  DeliveryPage: PageAnswer(DeliveryAnswer),
  ...Object.fromEntries(webhookEvents.map((event) => [eventSchemaName(event), webhookBodies[event]])),
  Jwks: JwksAnswer,
  RevokedSidecarKeys,
  SidecarKeyRevocation,
  RevokedSidecarKey: SidecarKeyRevoked,
  ReceiptShowing,
  ReceiptReport,
  KeyRotationRequest: KeyRotation,
  KeyRotation: KeyRotationAnswer,
  Readiness: ReadinessAnswer,
} as const satisfies Readonly<Record<string, TSchema>>;
