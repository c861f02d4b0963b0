import type { TSchema } from 'typebox';
import { BrokenAnswer } from '../../shared/attestation/broken-chains.ts';
import { ExportAnswer } from '../../shared/attestation/export.ts';
import { webhookEvents } from '../../shared/model/webhook.ts';
import * as account from '../../shared/wire/api/account.ts';
import * as apiKey from '../../shared/wire/api/api-key.ts';
import * as approval from '../../shared/wire/api/approval.ts';
import { Vocabulary } from '../../shared/wire/api/authzen-vocabulary.ts';
import * as backtest from '../../shared/wire/api/backtest.ts';
import * as catalog from '../../shared/wire/api/catalog.ts';
import * as channel from '../../shared/wire/api/channel.ts';
import * as check from '../../shared/wire/api/check.ts';
import * as checkBatch from '../../shared/wire/api/check-batch.ts';
import * as conditions from '../../shared/wire/api/conditions.ts';
import * as constraints from '../../shared/wire/api/constraints.ts';
import * as decision from '../../shared/wire/api/decision.ts';
import * as difference from '../../shared/wire/api/difference.ts';
import { DiscoveryAnswer } from '../../shared/wire/api/discovery.ts';
import { ErrorAnswer } from '../../shared/wire/api/error.ts';
import * as federation from '../../shared/wire/api/federation.ts';
import * as federationOperations from '../../shared/wire/api/federation-operations.ts';
import * as gate from '../../shared/wire/api/gate.ts';
import { GateRoute } from '../../shared/wire/api/gate-routes.ts';
import * as gateUsage from '../../shared/wire/api/gate-usage.ts';
import * as hold from '../../shared/wire/api/hold.ts';
import * as issuer from '../../shared/wire/api/issuer.ts';
import { JwksAnswer } from '../../shared/wire/api/jwks.ts';
import * as mcpPin from '../../shared/wire/api/mcp-pin.ts';
import * as oidc from '../../shared/wire/api/oidc.ts';
import * as outcome from '../../shared/wire/api/outcome.ts';
import { PageAnswer } from '../../shared/wire/api/paging.ts';
import * as passkey from '../../shared/wire/api/passkey.ts';
import * as passport from '../../shared/wire/api/passport.ts';
import * as passportIssue from '../../shared/wire/api/passport-issue.ts';
import * as promotion from '../../shared/wire/api/promotion.ts';
import * as retention from '../../shared/wire/api/retention.ts';
import * as session from '../../shared/wire/api/session.ts';
import * as shadow from '../../shared/wire/api/shadow.ts';
import * as sidecar from '../../shared/wire/api/sidecar.ts';
import * as signingKey from '../../shared/wire/api/signing-key.ts';
import * as standingApproval from '../../shared/wire/api/standing-approval.ts';
import * as statistics from '../../shared/wire/api/statistics.ts';
import * as template from '../../shared/wire/api/template.ts';
import * as user from '../../shared/wire/api/user.ts';
import * as wallet from '../../shared/wire/api/wallet.ts';
import * as webhook from '../../shared/wire/api/webhook.ts';
import { webhookBodies } from '../../shared/wire/api/webhook-events.ts';
import { WhoAmIAnswer } from '../../shared/wire/api/who-am-i.ts';
import { AnswerProof } from '../../shared/wire/evidence/answer-proof.ts';
import * as attestation from '../../shared/wire/evidence/attestation.ts';
import * as audit from '../../shared/wire/evidence/audit.ts';
import * as decisionReceipt from '../../shared/wire/evidence/decision-receipt.ts';
import * as fact from '../../shared/wire/evidence/fact.ts';
import * as policy from '../../shared/wire/evidence/policy.ts';
import { ReadinessAnswer } from '../operations/routes.ts';
import { eventSchemaName } from './webhook-operations.ts';

/**
 * The schemas that have a name in the published document. They are the ones that validate; a schema without a
 * name is written out where it is used. Of two equal ones the later gives its name to both.
 */
export const namedSchemas = {
  Error: ErrorAnswer,
  ReferenceIssue: passportIssue.ReferenceIssue,
  MachineIssue: passportIssue.MachineIssue,
  UnattendedIssue: passportIssue.UnattendedIssue,
  Passport: passport.PassportAnswer,
  IssuedPassport: passport.IssuedPassportAnswer,
  PassportListItem: passport.PassportListItem,
  PassportPage: PageAnswer(passport.PassportListItem),
  PassportRevocation: passport.PassportRevocation,
  Revocation: passport.RevocationAnswer,
  Verification: passport.VerificationAnswer,
  PassportConstraints: constraints.PassportConstraints,
  GateConstraints: constraints.GateConstraints,
  RequiredProof: constraints.RequiredProof,
  Condition: conditions.ConditionBody,
  ConditionCheckRequest: conditions.ConditionCheckBody,
  ConditionCheck: conditions.ConditionCheck,
  GateRoute,
  GateCreation: gate.GateCreation,
  NewGate: gate.GateCreationAnswer,
  GatePatch: gate.GatePatch,
  Gate: gate.GateAnswer,
  GateWithStats: gate.GateWithStatsAnswer,
  GateListItem: gate.GateListItem,
  GatePage: PageAnswer(gate.GateListItem),
  GateDeletion: gate.GateDeletion,
  ShadowPatch: shadow.ShadowPatch,
  Shadow: shadow.ShadowAnswer,
  ShadowDeletion: shadow.ShadowDeletion,
  Promotion: promotion.PromotionAnswer,
  OutcomeCounts: promotion.OutcomeCounts,
  BacktestRequest: backtest.BacktestRequest,
  Backtest: backtest.BacktestAnswer,
  Difference: difference.DifferenceAnswer,
  DifferentDecisions: difference.DifferentDecisions,
  GatePolicy: policy.GatePolicyItem,
  GatePolicyPage: PageAnswer(policy.GatePolicyItem),
  PolicyBody: policy.PolicyBody,
  Policy: policy.PolicyAnswer,
  CatalogPublication: catalog.CatalogPublication,
  Catalog: catalog.CatalogAnswer,
  Discovery: DiscoveryAnswer,
  Request: check.RequestMembers,
  GateTestRequest: check.GateTestBody,
  GateTest: decision.GateTestAnswer,
  CheckBatch: checkBatch.CheckBatchAnswer,
  CheckBatchRequest: checkBatch.CheckBatchBody,
  CheckRequest: check.CheckBody,
  Permit: decision.PermitAnswer,
  Suspend: decision.SuspendAnswer,
  Block: decision.BlockAnswer,
  Decision: decision.DecisionAnswer,
  Receipt: decisionReceipt.DecisionReceipt,
  ReceiptStatement: decisionReceipt.ReceiptStatement,
  ReceiptHistory: decisionReceipt.ReceiptHistory,
  SidecarCertificate: decisionReceipt.SidecarCertificate,
  PiiFinding: decision.PiiFindingAnswer,
  ApprovalResolution: approval.ApprovalResolution,
  Approval: approval.ApprovalAnswer,
  ApprovalDetail: approval.ApprovalDetail,
  AnswerProof,
  ApprovalPage: PageAnswer(approval.ApprovalAnswer),
  McpPin: mcpPin.McpPinAnswer,
  McpPinListItem: mcpPin.McpPinListItem,
  McpPinPage: PageAnswer(mcpPin.McpPinListItem),
  McpPinResolution: mcpPin.McpPinResolution,
  McpGuardPin: mcpPin.McpGuardPinAnswer,
  McpToolReport: mcpPin.McpToolReport,
  McpToolReportResult: mcpPin.McpToolReportAnswer,
  WalletCreation: wallet.WalletCreation,
  WalletPatch: wallet.WalletPatch,
  WalletLimits: wallet.LimitsAnswer,
  WalletLimitsChange: wallet.WalletLimitsBody,
  Wallet: wallet.WalletAnswer,
  WalletPage: PageAnswer(wallet.WalletAnswer),
  WalletDetail: wallet.WalletDetailAnswer,
  WalletUsage: wallet.WalletUsageAnswer,
  WalletStatement: wallet.WalletStatementAnswer,
  WalletDeletion: wallet.WalletDeletion,
  PassportWallet: wallet.PassportWallet,
  StandingApprovalCreation: standingApproval.StandingApprovalCreation,
  StandingApproval: standingApproval.StandingApprovalAnswer,
  StandingApprovalPage: PageAnswer(standingApproval.StandingApprovalAnswer),
  HoldAsk: hold.HoldAskBody,
  PermitHold: hold.HoldAnswer,
  HoldState: outcome.HoldStateAnswer,
  OutcomeReport: outcome.OutcomeReport,
  HoldExtension: outcome.HoldExtension,
  RefundRequest: outcome.RefundRequest,
  PermitOutcome: outcome.PermitOutcomeAnswer,
  HoldPage: PageAnswer(outcome.PermitOutcomeAnswer),
  ReportedOutcome: outcome.ReportedOutcomeAnswer,
  ReportedOutcomePage: PageAnswer(outcome.ReportedOutcomeAnswer),
  Attestation: attestation.AttestationAnswer,
  AttestationPage: attestation.AttestationPageAnswer,
  AttestationFacts: fact.FactsAnswer,
  Export: ExportAnswer,
  BrokenChain: BrokenAnswer,
  Actor: audit.ActorAnswer,
  AuditEntry: audit.AuditEntryAnswer,
  AuditPage: audit.AuditPageAnswer,
  IssuerCreation: issuer.IssuerCreation,
  IssuerUpdate: issuer.IssuerUpdate,
  Issuer: issuer.IssuerAnswer,
  Federation: federation.FederationAnswer,
  FederationCreation: federation.FederationBody,
  FederationUpdate: federation.FederationChange,
  SubjectRevocation: federationOperations.SubjectRevocation,
  TokenTrial: federationOperations.TokenTrial,
  TokenExplanation: federationOperations.TokenExplanation,
  TokenStep: federationOperations.TokenStep,
  TokenPassport: federationOperations.TokenPassport,
  TokenDelegate: federationOperations.TokenDelegate,
  FederationClaims: federation.FederationClaims,
  PassportOwner: passport.OwnerAnswer,
  Suspension: passport.SuspensionAnswer,
  Reactivation: passport.Reactivation,
  IssuerPage: PageAnswer(issuer.IssuerAnswer),
  TemplateCreation: template.TemplateCreation,
  Template: template.TemplateAnswer,
  TemplatePage: PageAnswer(template.TemplateAnswer),
  AuthzenVocabulary: Vocabulary,
  AuthzenResource: Vocabulary.properties.resources.items,
  AuthzenAction: Vocabulary.properties.actions.items,
  RetentionUpdate: retention.RetentionUpdate,
  Retention: retention.RetentionAnswer,
  WhoAmI: WhoAmIAnswer,
  ApiKeyCreation: apiKey.ApiKeyCreation,
  Roll: apiKey.ApiKeyRoll,
  ApiKey: apiKey.ApiKeyAnswer,
  NewApiKey: apiKey.NewApiKeyAnswer,
  ApiKeyPage: PageAnswer(apiKey.ApiKeyAnswer),
  ApiKeyDeletion: apiKey.ApiKeyDeletion,
  AccountCreation: account.AccountCreation,
  AccountUpdate: account.AccountUpdate,
  Account: account.AccountAnswer,
  NewAccount: account.NewAccountAnswer,
  AccountPage: PageAnswer(account.AccountAnswer),
  DecisionCount: statistics.DecisionCountAnswer,
  DecisionBucket: statistics.DecisionBucketAnswer,
  DecisionStatistics: statistics.DecisionStatisticsAnswer,
  DecisionTimes: sidecar.DecisionTimesAnswer,
  Sidecar: sidecar.SidecarAnswer,
  SidecarPage: PageAnswer(sidecar.SidecarAnswer),
  LimitUsage: gateUsage.LimitUsageAnswer,
  GateUsage: gateUsage.GateUsageAnswer,
  Login: session.Login,
  SessionAccount: session.SessionAccountAnswer,
  Session: session.SessionAnswer,
  LoginMethods: oidc.LoginMethodsAnswer,
  OidcLoginBeginning: oidc.OidcLoginBeginning,
  OidcLoginBegun: oidc.OidcLoginBegun,
  OidcLogin: oidc.OidcLogin,
  SessionListItem: session.SessionListItem,
  SessionPage: PageAnswer(session.SessionListItem),
  UserInvitation: user.UserInvitation,
  UserUpdate: user.UserUpdate,
  User: user.UserAnswer,
  UserPage: PageAnswer(user.UserAnswer),
  InvitedUser: user.InvitedUserAnswer,
  Invitation: user.InvitationAnswer,
  InvitationReading: user.InvitationReading,
  InvitationRenewal: user.InvitationRenewal,
  InvitationAcceptance: user.InvitationAcceptance,
  UserDeletion: user.UserDeletion,
  OwnPassword: user.OwnPassword,
  PasswordChange: user.PasswordChange,
  TotpBegun: user.TotpBegunAnswer,
  TotpConfirmation: user.TotpConfirmation,
  TotpConfirmed: user.TotpConfirmedAnswer,
  PasskeyOptions: passkey.PasskeyOptions,
  PasskeyCreation: passkey.PasskeyCreation,
  PasskeyLogin: passkey.PasskeyLogin,
  PasskeyUpdate: passkey.PasskeyUpdate,
  Passkey: passkey.PasskeyAnswer,
  PasskeyPage: PageAnswer(passkey.PasskeyAnswer),
  ChannelCreation: channel.ChannelCreation,
  ChannelUpdate: channel.ChannelUpdate,
  Channel: channel.ChannelAnswer,
  NewChannel: channel.NewChannelAnswer,
  ChannelPage: PageAnswer(channel.ChannelAnswer),
  ChannelDeletion: channel.ChannelDeletion,
  ChannelFailure: channel.ChannelFailure,
  ChannelTest: channel.ChannelTestAnswer,
  WebhookCreation: webhook.WebhookCreation,
  WebhookUpdate: webhook.WebhookUpdate,
  WebhookTest: webhook.WebhookTest,
  WebhookRecovery: webhook.WebhookRecovery,
  Webhook: webhook.WebhookAnswer,
  NewWebhook: webhook.NewWebhookAnswer,
  WebhookPage: PageAnswer(webhook.WebhookAnswer),
  WebhookDeletion: webhook.WebhookDeletion,
  WebhookRecovered: webhook.WebhookRecoveryAnswer,
  Delivery: webhook.DeliveryAnswer,
  DeliveryPage: PageAnswer(webhook.DeliveryAnswer),
  ...Object.fromEntries(webhookEvents.map((event) => [eventSchemaName(event), webhookBodies[event]])),
  Jwks: JwksAnswer,
  RevokedSidecarKeys: decisionReceipt.RevokedSidecarKeys,
  SidecarKeyRevocation: decisionReceipt.SidecarKeyRevocation,
  RevokedSidecarKey: decisionReceipt.SidecarKeyRevoked,
  ReceiptShowing: decisionReceipt.ReceiptShowing,
  ReceiptReport: decisionReceipt.ReceiptReport,
  KeyRotationRequest: signingKey.KeyRotation,
  KeyRotation: signingKey.KeyRotationAnswer,
  Readiness: ReadinessAnswer,
} as const satisfies Readonly<Record<string, TSchema>>;
