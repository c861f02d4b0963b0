import type { AccountId, AuditId, RequestId } from './ids.ts';
import type { Mode } from './mode.ts';
import type { UnixMillis } from './time.ts';

/**
 * Who made a change. `id` names it: an API key, directly or through an access token that is bound to it, or a
 * person (`user`). Readers must accept an unknown `type`.
 */
export interface Actor {
  readonly type: string;
  readonly id: string;
  /** The OAuth client to which the access token was given; null without one. */
  readonly clientId: string | null;
}

/** The changing operations, by operationId: each success writes one audit entry (contract §16). */
export const auditedOperations = [
  'issuePassport',
  'issuePassportUnattended',
  'revokePassport',
  'suspendPassport',
  'reactivatePassport',
  'suspendOwner',
  'reactivateOwner',
  'revokeSubject',
  'receiveSecurityEvent',
  'createGate',
  'updateGate',
  'deleteGate',
  'putShadow',
  'deleteShadow',
  'promoteShadow',
  'publishCatalog',
  'createIssuer',
  'updateIssuer',
  'createTemplate',
  'approveApproval',
  'denyApproval',
  'undoApproval',
  'refundPermit',
  'acceptMcpPin',
  'rejectMcpPin',
  'createWallet',
  'updateWallet',
  'freezeWallet',
  'unfreezeWallet',
  'deleteWallet',
  'setPassportWallet',
  'createStandingApproval',
  'endStandingApproval',
  'createApiKey',
  'rollApiKey',
  'deleteApiKey',
  'setRetention',
  'getAttestationFacts',
  'setAuthzenVocabulary',
  'createWebhook',
  'updateWebhook',
  'deleteWebhook',
  'rollWebhookSecret',
  'testWebhook',
  'resendDelivery',
  'recoverWebhook',
  'createChannel',
  'updateChannel',
  'deleteChannel',
  'testChannel',
  'createAccount',
  'updateAccount',
  'rotateSigningKey',
  'revokeSidecarKey',
  'logIn',
  'logInWithOidc',
  'logInWithPasskey',
  'logOut',
  'endSession',
  'inviteUser',
  'renewInvitation',
  'acceptInvitation',
  'confirmUser',
  'updateUser',
  'deleteUser',
  'changePassword',
  'beginTotp',
  'confirmTotp',
  'removeTotp',
  'addPasskey',
  'renamePasskey',
  'removePasskey',
] as const;
export type AuditedOperation = (typeof auditedOperations)[number];

/** Members of a resource as the API answers it, without secrets. */
export type AuditState = Readonly<Record<string, unknown>>;

/** One change, without its place in the chain. */
export interface AuditFacts {
  readonly auditId: AuditId;
  readonly accountId: AccountId;
  readonly mode: Mode;
  readonly actor: Actor;
  /** One of `auditedOperations`; text, because a later version may have more. */
  readonly operation: string;
  /** The id of the changed resource. */
  readonly target: string;
  /** Null: it did not exist. If `after` exists too, both hold only the members that differ. */
  readonly before: AuditState | null;
  /** Null: it no longer exists. */
  readonly after: AuditState | null;
  readonly requestId: RequestId;
  readonly createdAtMs: UnixMillis;
}

/** An entry in the chain of its account and mode. */
export interface AuditEntry extends AuditFacts {
  /** From 1, without gaps. */
  readonly sequence: number;
  /** `hash` of the entry before; null for the first. */
  readonly previousHash: string | null;
  readonly signingKeyId: string;
  readonly hash: string;
  readonly signature: string;
}
