import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import type { Attestation, ChainId, PiiFinding, Resolution } from '../model/attestation.ts';
import { checkNames, decisionReasons, outcomes } from '../model/decision.ts';
import { isId } from '../model/ids.ts';
import { limits } from '../model/limits.ts';
import { parseMicroUsd } from '../model/money.ts';
import { isGrantablePermission } from '../model/permission.ts';
import { parseTime, renderTime, type UnixMillis } from '../model/time.ts';
import { closed, nullable, Timestamp } from './fields.ts';

const resolutions = ['approved', 'denied', 'expired', 'voided'] as const satisfies readonly Resolution[];

const Hash = Type.String({ pattern: '^sha256:[0-9a-f]{64}$' });

/**
 * A record as answers and exports carry it: the signed body (contract §9), its hash and its signature. Every
 * member is present, null if it has no value. Records older than `refers_to` and `source_account` lack those
 * two, and their hashes do not cover them.
 */
export const AttestationAnswer = closed({
  /** Integer micro-USD: no floating-point number is in a signed body. */
  amount_micro_usd: nullable(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
  /** The passport, gate or account that owns the chain. */
  chain_id: Type.String(),
  constraints_evaluated: Type.Array(Type.Enum(checkNames), { maxItems: checkNames.length }),
  decision: Type.Enum(outcomes),
  gate_id: nullable(Type.String()),
  hash: Hash,
  id: Type.String(),
  passport_id: nullable(Type.String()),
  permission_key: nullable(Type.String()),
  pii: Type.Array(closed({ pointer: Type.String(), type: Type.String() }), {
    maxItems: limits.piiFindingsMax,
  }),
  previous_attestation_hash: nullable(Hash),
  reason: nullable(Type.Enum(decisionReasons)),
  /** The approval that the record resolves, or the attestation that it voids. */
  refers_to: Type.Optional(nullable(Type.String())),
  request_hash: Hash,
  resolution: nullable(Type.Enum(resolutions)),
  sequence: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
  /** base64url of 64 bytes. */
  signature: Type.String({ pattern: '^[A-Za-z0-9_-]{86}$' }),
  signing_key_id: Type.String({ pattern: '^[A-Za-z0-9_-]{43}$' }),
  /** The sidecar that decided, or `control-plane`. */
  source: Type.String(),
  /** The account of that sidecar, or of the caller of the control plane. */
  source_account: Type.Optional(Type.String()),
  test: Type.Boolean(),
  timestamp: Timestamp,
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
export const renderAttestation = (attestation: Attestation): AttestationAnswer =>
  asWritten({
    amount_micro_usd: attestation.amountMicroUsd,
    chain_id: attestation.chainId,
    constraints_evaluated: [...attestation.constraintsEvaluated],
    decision: attestation.decision,
    gate_id: attestation.gateId,
    hash: attestation.hash,
    id: attestation.id,
    passport_id: attestation.passportId,
    permission_key: attestation.permissionKey,
    pii: attestation.pii.map(renderFinding),
    previous_attestation_hash: attestation.previousAttestationHash,
    reason: attestation.reason,
    refers_to: attestation.refersTo,
    request_hash: attestation.requestHash,
    resolution: attestation.resolution,
    sequence: attestation.sequence,
    signature: attestation.signature,
    signing_key_id: attestation.signingKeyId,
    source: attestation.source,
    source_account: attestation.sourceAccount,
    test: attestation.test,
    timestamp: renderTime(attestation.timestampMs),
  });

interface Origin {
  readonly refers_to: string | null;
  readonly source_account: string | null;
}

/** Omits `refers_to` and `source_account` for a record of an older build, which was hashed without them. */
export function asWritten<Body extends Origin>(
  body: Body,
): Omit<Body, keyof Origin> & { refers_to?: string | null; source_account?: string } {
  const { source_account } = body;
  if (source_account !== null) return { ...body, source_account };
  const { refers_to: _, source_account: __, ...earlier } = body;
  return earlier;
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

/** RFC 8785 has no form for half of a surrogate pair. */
const loneSurrogate = /\p{Surrogate}/u;

export const isChainId = (text: string): text is ChainId =>
  isId('pass', text) || isId('gate', text) || isId('acct', text);

/** A time as `renderTime` spells it; null for any other spelling. */
export function parseExactTime(text: string): UnixMillis | null {
  const timeMs = parseTime(text);
  return timeMs !== null && renderTime(timeMs) === text ? timeMs : null;
}
