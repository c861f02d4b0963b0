import { type Static, Type } from 'typebox';
import { invalidRequest } from '../../errors/api-error.ts';
import type { SidecarId } from '../../model/ids.ts';
import { closed, nullable, Timestamp } from '../api/fields.ts';

const Hash = Type.String({ pattern: '^sha256:[0-9a-f]{64}$' });
/** 32 bytes as unpadded base64url. */
const Bytes32 = Type.String({ pattern: '^[A-Za-z0-9_-]{43}$' });
/** 64 bytes as unpadded base64url. */
const Signature = Type.String({ pattern: '^[A-Za-z0-9_-]{86}$' });
const Name = Type.String({ maxLength: 64 });

export const receiptFormat = 'agent-trust.receipt.v1';

/** What a sidecar states (contract §9). */
export const ReceiptStatement = closed({
  attestation_id: Name,
  /** The chain that the record will be in. */
  chain_id: Name,
  decision: Type.Enum(['PERMIT', 'BLOCK']),
  gate_id: nullable(Name),
  /** When it was decided; of a first PERMIT that is answered again: when it was answered. */
  issued_at: Timestamp,
  /** The record is in the log by then. */
  log_by: Timestamp,
  reason: nullable(Name),
  request_hash: Hash,
});
export type ReceiptStatement = Static<typeof ReceiptStatement>;

/** The control plane certifies the key of one sidecar. */
export const SidecarCertificate = closed({
  account_id: Name,
  expires_at: Timestamp,
  /** RFC 7638 thumbprint of `x`. */
  kid: Bytes32,
  not_before: Timestamp,
  purpose: Type.Literal('sidecar'),
  sidecar_id: Name,
  /** Of purpose `attestation`. */
  signing_key_id: Bytes32,
  /** The public key of the sidecar. */
  x: Bytes32,
  signature: Signature,
});
export type SidecarCertificate = Static<typeof SidecarCertificate>;

/** Answers that one signature covers: a path has at most ten hashes. */
export const receiptTurnMax = 1_024;

/**
 * The last place of the history that the sidecar was told, for the control plane alone: it notices a database
 * that went back behind it (contract §17).
 */
export const ReceiptHistory = closed({
  text: Type.String({ maxLength: 4_096 }),
  mac: Type.String({ maxLength: 64 }),
});

/** Statements of one turn are leaves of a tree (RFC 6962), whose root is signed. */
export const DecisionReceipt = closed({
  format: Type.Literal(receiptFormat),
  statement: ReceiptStatement,
  index: Type.Integer({ minimum: 0, maximum: receiptTurnMax - 1 }),
  size: Type.Integer({ minimum: 1, maximum: receiptTurnMax }),
  /** From the leaf's sibling up. */
  path: Type.Array(Bytes32, { maxItems: Math.log2(receiptTurnMax) }),
  signature: Signature,
  certificate: SidecarCertificate,
  history: nullable(ReceiptHistory),
});
export type DecisionReceipt = Static<typeof DecisionReceipt>;

/** A request asks for a receipt with `true`. Throws `invalid_request` for what is no boolean. */
export function refuseReceiptAsk(given: unknown, at: string): void {
  if (given === undefined || given === null || typeof given === 'boolean') return;
  throw invalidRequest(`${at}.receipt`, `${at}.receipt must be true or false.`);
}

const SidecarIdText = Type.Unsafe<SidecarId>(Type.String({ pattern: '^side_[0-7][0-9a-hjkmnp-tv-z]{25}$' }));

/** `POST /v1/sync/receipt-key`: of a sidecar, as a connection. */
export const SidecarKeyCall = Type.Object({
  sidecar_id: SidecarIdText,
  connection_id: Type.String({ maxLength: 128 }),
  x: Bytes32,
  /** By that key, so that no other sidecar can have it certified. */
  signature: Signature,
});
export type SidecarKeyCall = Static<typeof SidecarKeyCall>;

export const SidecarKeyAnswer = Type.Object({ certificate: SidecarCertificate });

/** `POST /signing-keys/revoke-sidecar-key` (contract §9). */
export const SidecarKeyRevocation = closed({ kid: Bytes32 });

export const SidecarKeyRevoked = Type.Object({ kid: Type.String(), revoked_at: Timestamp });
export type SidecarKeyRevoked = Static<typeof SidecarKeyRevoked>;

/** `POST /receipts`. */
export const ReceiptShowing = closed({ receipt: DecisionReceipt });

export const ReceiptReport = Type.Object({
  attestation_id: Type.String(),
  /**
   * `awaited`: it is promised for later. `archived`: an archive may have it. `contradicted`: there is another
   * record under that id.
   */
  state: Type.Enum(['on_record', 'awaited', 'archived', 'missing', 'contradicted']),
  /** `regressed`: the database lacks what was told to some sidecar (contract §17). */
  history: Type.Enum(['whole', 'regressed']),
});
export type ReceiptReport = Static<typeof ReceiptReport>;

/** `GET /.well-known/sidecar-keys.json`: keys that prove nothing any more. */
export const RevokedSidecarKeys = Type.Object({
  revoked: Type.Array(SidecarKeyRevoked),
});
