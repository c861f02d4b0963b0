import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { assert } from '../../errors/assert.ts';
import {
  type Attestation,
  approvalResolutions,
  type ChainId,
  noCarried,
  noExtras,
  type PiiFinding,
  permitResolutions,
  type RecordExtras,
  recordProofs,
} from '../../model/attestation.ts';
import { checkNames, decisionReasons, outcomes } from '../../model/decision.ts';
import type { IdDigest } from '../../model/id-digest.ts';
import { isApprovalName, isId, isWalletId } from '../../model/ids.ts';
import { limits } from '../../model/limits.ts';
import { parseMicroUsd } from '../../model/money.ts';
import { isGrantablePermission } from '../../model/permission.ts';
import { parseTime, renderOptionalTime, renderTime, type UnixMillis } from '../../model/time.ts';
import { trustTiers } from '../../model/trust-tier.ts';
import { walletDepthMax } from '../../model/wallet.ts';
import { parseHost } from '../api/domain.ts';
import { closed, nullable, Timestamp } from '../api/fields.ts';
import { CarriedAnswer, carriedNames, parseCarried, sha256Text } from './carried-members.ts';

const resolutions = [...new Set([...approvalResolutions, 'voided' as const, ...permitResolutions])];

/** What a column of four bytes holds: 24 days. An older state has this age. */
export const stateAgeMsMax = 2 ** 31 - 1;

const Hash = sha256Text;

const WalletPath = Type.Unsafe<readonly IdDigest[]>(
  Type.Array(Type.String({ pattern: '^[A-Za-z0-9_-]{22}$' }), { maxItems: walletDepthMax }),
);
const walletPathShape = Compile(WalletPath);
export const isWalletPath = (value: unknown): value is readonly IdDigest[] => walletPathShape.Check(value);

const { properties: carried } = CarriedAnswer;

/**
 * A record as answers and exports carry it: the signed body (contract §9), its hash and its signature. Every
 * member is present, null if it has no value. Records in form 1 lack the members of form 2, and records older
 * than `refers_to` and `source_account` lack those two; their hashes do not cover them.
 */
export const AttestationAnswer = closed({
  /** Integer micro-USD: no floating-point number is in a signed body. */
  amount_micro_usd: nullable(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
  /** The approval that a PERMIT used, or that a SUSPEND is about. Form 2. */
  approval_id: Type.Optional(nullable(Type.String())),
  /** The subject was named without its token. Form 2. */
  asserted: Type.Optional(Type.Boolean()),
  /** The passport, gate or account that owns the chain. */
  chain_id: Type.String(),
  conditions: carried.conditions,
  constraints_evaluated: Type.Array(Type.Enum(checkNames), { maxItems: checkNames.length }),
  decision: Type.Enum(outcomes),
  /** The host that the request named, in its canonical form; null where it may be personal data. Form 2. */
  domain: Type.Optional(nullable(Type.String())),
  external: carried.external,
  facts: carried.facts,
  gate_id: nullable(Type.String()),
  hash: Hash,
  /** When the held money goes back. Form 2. */
  hold_expires_at: Type.Optional(nullable(Timestamp)),
  id: Type.String(),
  passport_id: nullable(Type.String()),
  permission_key: nullable(Type.String()),
  permit_token: carried.permit_token,
  pii: Type.Array(closed({ pointer: Type.String(), type: Type.String() }), {
    maxItems: limits.piiFindingsMax,
  }),
  /** The policy that decided. Null: no gate, or its policy is not on record. Form 2. */
  policy_hash: Type.Optional(nullable(Hash)),
  previous_attestation_hash: nullable(Hash),
  /** How the holder proved possession of the passport's key. Form 2. */
  proof: Type.Optional(nullable(Type.Enum(recordProofs))),
  reason: nullable(Type.Enum(decisionReasons)),
  /** The approval that the record resolves, or the attestation that it voids. */
  refers_to: Type.Optional(nullable(Type.String())),
  request_hash: Hash,
  resolution: nullable(Type.Enum(resolutions)),
  sequence: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
  shadow: carried.shadow,
  /** base64url of 64 bytes. */
  signature: Type.String({ pattern: '^[A-Za-z0-9_-]{86}$' }),
  signing_key_id: Type.String({ pattern: '^[A-Za-z0-9_-]{43}$' }),
  /** The sidecar that decided, or `control-plane`. */
  source: Type.String(),
  /** The account of that sidecar, or of the caller of the control plane. */
  source_account: Type.Optional(Type.String()),
  /** Age of the state of the sidecar that decided; null: a control plane did, or not known. Form 2. */
  state_age_ms: Type.Optional(nullable(Type.Integer({ minimum: 0, maximum: stateAgeMsMax }))),
  test: Type.Boolean(),
  timestamp: Timestamp,
  /** Of the gate when it decided; null: no gate. Form 2. */
  trust_level: Type.Optional(nullable(Type.Enum(trustTiers))),
  units: carried.units,
  user: carried.user,
  /** Of the passport. Form 2. */
  wallet_id: Type.Optional(nullable(Type.String())),
  /** Of the passport, up to the root, as the source of the record knew them; null: not known. Form 2. */
  wallet_path: Type.Optional(nullable(WalletPath)),
});

/** `GET /attestations`. `next_cursor` is the cursor of the next page; null on the last page. */
export const AttestationPageAnswer = Type.Object({
  attestations: Type.Array(AttestationAnswer),
  next_cursor: nullable(Type.String()),
  /** Records of the caller's passports, gates and account that arrived before may be in archives. */
  archived_before: nullable(Timestamp),
});

export type AttestationAnswer = Static<typeof AttestationAnswer>;

/** The members are in the order of RFC 8785, so that `JSON.stringify` of this is its canonical form. */
export function renderAttestation(attestation: Attestation): AttestationAnswer {
  const carried = attestation.carried ?? noCarried;
  return asWritten({
    amount_micro_usd: attestation.amountMicroUsd,
    approval_id: attestation.approvalId,
    asserted: attestation.asserted,
    chain_id: attestation.chainId,
    conditions: carried.conditions,
    constraints_evaluated: [...attestation.constraintsEvaluated],
    decision: attestation.decision,
    domain: attestation.domain,
    external: carried.external,
    facts: carried.facts,
    gate_id: attestation.gateId,
    hash: attestation.hash,
    hold_expires_at: renderOptionalTime(attestation.holdExpiresAtMs),
    id: attestation.id,
    passport_id: attestation.passportId,
    permission_key: attestation.permissionKey,
    permit_token: carried.permit_token,
    pii: attestation.pii.map(renderFinding),
    policy_hash: attestation.policyHash,
    previous_attestation_hash: attestation.previousAttestationHash,
    proof: attestation.proof,
    reason: attestation.reason,
    refers_to: attestation.refersTo,
    request_hash: attestation.requestHash,
    resolution: attestation.resolution,
    sequence: attestation.sequence,
    shadow: carried.shadow,
    signature: attestation.signature,
    signing_key_id: attestation.signingKeyId,
    source: attestation.source,
    source_account: attestation.sourceAccount,
    state_age_ms: attestation.stateAgeMs,
    test: attestation.test,
    timestamp: renderTime(attestation.timestampMs),
    trust_level: attestation.trustLevel,
    units: carried.units,
    user: carried.user,
    wallet_id: attestation.walletId,
    wallet_path: attestation.walletPath,
  });
}

const form2Members = [
  'approval_id',
  'asserted',
  'domain',
  'hold_expires_at',
  'policy_hash',
  'proof',
  'state_age_ms',
  'trust_level',
  'wallet_id',
  'wallet_path',
  ...carriedNames,
] as const satisfies readonly (keyof AttestationAnswer)[];
const originMembers = ['refers_to', 'source_account'] as const;

/** The members of form 2, as they are written. */
type WrittenExtras = Record<(typeof form2Members)[number], unknown> & { readonly asserted: boolean | null };

interface Origin {
  readonly refers_to: string | null;
  readonly source_account: string | null;
}

type Optional = keyof Origin | keyof WrittenExtras;
type Written<Body> = Omit<Body, Optional> & Pick<AttestationAnswer, Optional>;

/**
 * Omits the members that a record lacks: those of form 2 in form 1, and `refers_to` and `source_account` in
 * one of an older build. It was hashed without them.
 */
export function asWritten<Body extends Origin & WrittenExtras>(body: Body): Written<Body> {
  const { source_account, asserted } = body;
  if (asserted !== null) {
    assert(source_account !== null, 'a record in form 2 names the account that it comes from');
    return { ...body, source_account, asserted } as Written<Body>;
  }
  const lacking = new Set<string>([...form2Members, ...(source_account === null ? originMembers : [])]);
  return Object.fromEntries(Object.entries(body).filter(([name]) => !lacking.has(name))) as Written<Body>;
}

export const renderFinding = ({ pointer, type }: PiiFinding): { pointer: string; type: string } => ({
  pointer,
  type,
});

const shape = Compile(AttestationAnswer);

/**
 * Reads exactly what `renderAttestation` writes: `renderAttestation(parseAttestation(x))` equals x. Null for
 * anything else, including a missing or additional member and another spelling of a time. Verifies neither
 * hash nor signature.
 */
export function parseAttestation(value: unknown): Attestation | null {
  if (!shape.Check(value)) return null;
  const amountMicroUsd = parseMicroUsd(value.amount_micro_usd);
  const timestampMs = parseExactTime(value.timestamp);
  const { chain_id, gate_id, id, passport_id, permission_key, source } = value;
  if (!isId('att', id) || !isChainId(chain_id) || timestampMs === null) return null;
  if (passport_id !== null && !isId('pass', passport_id)) return null;
  if (gate_id !== null && !isId('gate', gate_id)) return null;
  if (permission_key !== null && !isGrantablePermission(permission_key)) return null;
  if (source !== 'control-plane' && !isId('side', source)) return null;
  const origin = parseOrigin(value);
  if (origin === null) return null;
  const extras = parseExtras(value);
  if (extras === null || (extras.asserted !== null && origin.sourceAccount === null)) return null;
  if (value.pii.some(({ pointer, type }) => loneSurrogate.test(pointer) || loneSurrogate.test(type)))
    return null;
  return {
    id,
    chainId: chain_id,
    passportId: passport_id,
    gateId: gate_id,
    decision: value.decision,
    reason: value.reason,
    requestHash: value.request_hash,
    permissionKey: permission_key,
    amountMicroUsd,
    constraintsEvaluated: value.constraints_evaluated,
    pii: value.pii,
    test: value.test,
    resolution: value.resolution,
    refersTo: origin.refersTo,
    source,
    sourceAccount: origin.sourceAccount,
    timestampMs,
    policyHash: extras.policyHash,
    trustLevel: extras.trustLevel,
    domain: extras.domain,
    stateAgeMs: extras.stateAgeMs,
    approvalId: extras.approvalId,
    walletId: extras.walletId,
    walletPath: extras.walletPath,
    holdExpiresAtMs: extras.holdExpiresAtMs,
    proof: extras.proof,
    asserted: extras.asserted,
    carried: extras.carried,
    sequence: value.sequence,
    previousAttestationHash: value.previous_attestation_hash,
    hash: value.hash,
    signature: value.signature,
    signingKeyId: value.signing_key_id,
  };
}

/**
 * Both members, or neither as in records of an older build; null if only one is present or one is malformed.
 */
function parseOrigin(value: AttestationAnswer): Pick<Attestation, 'refersTo' | 'sourceAccount'> | null {
  const { refers_to, source_account } = value;
  if (refers_to === undefined && source_account === undefined) return { refersTo: null, sourceAccount: null };
  if (refers_to === undefined || source_account === undefined || !isId('acct', source_account)) return null;
  if (refers_to !== null && !isId('att', refers_to) && !isId('appr', refers_to)) return null;
  return { refersTo: refers_to, sourceAccount: source_account };
}

/** All of the members of form 2, or none of them; null if some are missing or one is malformed. */
function parseExtras(value: AttestationAnswer): RecordExtras | null {
  const missing = form2Members.filter((name) => value[name] === undefined).length;
  if (missing === form2Members.length) return noExtras;
  const { approval_id = null, asserted, domain = null, hold_expires_at = null, wallet_id = null } = value;
  if (missing > 0 || asserted === undefined) return null;
  if (approval_id !== null && !isApprovalName(approval_id)) return null;
  if (domain !== null && parseHost(domain) !== domain) return null;
  if (wallet_id !== null && !isWalletId(wallet_id)) return null;
  const holdExpiresAtMs = hold_expires_at === null ? null : parseExactTime(hold_expires_at);
  if (hold_expires_at !== null && holdExpiresAtMs === null) return null;
  const carried = parseCarried(value);
  if (carried === undefined) return null;
  return {
    policyHash: value.policy_hash ?? null,
    trustLevel: value.trust_level ?? null,
    domain,
    stateAgeMs: value.state_age_ms ?? null,
    approvalId: approval_id,
    walletId: wallet_id,
    walletPath: value.wallet_path ?? null,
    holdExpiresAtMs,
    proof: value.proof ?? null,
    asserted,
    carried,
  };
}

/** RFC 8785 has no form for half of a surrogate pair. */
const loneSurrogate = /\p{Surrogate}/u;

const isChainId = (text: string): text is ChainId =>
  isId('pass', text) || isId('gate', text) || isId('acct', text);

/** A time as `renderTime` spells it; null for any other spelling. */
export function parseExactTime(text: string): UnixMillis | null {
  const timeMs = parseTime(text);
  return timeMs !== null && renderTime(timeMs) === text ? timeMs : null;
}
