import {
  canonical,
  encode,
  fromBase64Url,
  hashOf,
  isObject,
  type Json,
  sha256Base64Url,
} from './canonical.ts';
import { keysOf, verifies } from './keys.ts';
import { rootOf, sha256 } from './merkle.ts';

export const receiptFaults = {
  malformed: 'this is not a receipt (agent-trust.receipt.v1)',
  other_request: 'the receipt is of another request',
  certificate_key_unknown: 'the key of the sidecar is certified by no attestation key of the JWKS',
  certificate_key_compromised: 'the key that certified the sidecar was declared compromised',
  certificate_forged: 'the certificate of the sidecar does not verify',
  not_in_time: 'the receipt was not issued while the certificate of the sidecar was in force',
  key_revoked: 'the key of the sidecar was revoked: its receipts prove nothing',
  forged: 'the signature is not of this statement: statement, path or signature was changed',
} as const;

/** `statement`: what a sidecar of the service has signed. */
export type ReceiptVerdict =
  | {
      readonly valid: true;
      readonly statement: ReceiptStatement;
      readonly sidecar_id: string;
    }
  | { readonly valid: false; readonly fault: keyof typeof receiptFaults };

export interface ReceiptStatement {
  readonly attestation_id: string;
  readonly chain_id: string;
  readonly decision: 'PERMIT' | 'BLOCK';
  readonly gate_id: string | null;
  readonly issued_at: string;
  /** The record is in the log by then. */
  readonly log_by: string;
  readonly reason: string | null;
  readonly request_hash: string;
}

export interface ReceiptOptions {
  /** What was asked: the receipt has to be of it. */
  readonly request?: Readonly<Record<string, unknown>>;
  /** The parsed `/.well-known/sidecar-keys.json`. Default: no key is known to be revoked. */
  readonly revoked?: unknown;
}

type Bytes = Uint8Array<ArrayBuffer>;
const invalid = (fault: keyof typeof receiptFaults): ReceiptVerdict => ({ valid: false, fault });

/**
 * Whether a sidecar of the service has signed this receipt (docs/receipts.md). `jwks`: the parsed
 * `/.well-known/jwks.json`, taken from the service itself. Does NOT say whether the record is there: hold it
 * against an export. Throws TypeError for a `jwks` or `revoked` that is none, and nothing else.
 */
export async function verifyReceipt(
  receipt: unknown,
  jwks: unknown,
  { request, revoked }: ReceiptOptions = {},
): Promise<ReceiptVerdict> {
  const keys = await keysOf(jwks);
  const revokedKids = revokedOf(revoked);
  const read = readReceipt(receipt);
  if (read === null) return invalid('malformed');
  const { statement, certificate, index, size, path, signature } = read;
  const key = keys.get(String(certificate['signing_key_id']));
  if (key?.purpose !== 'attestation') return invalid('certificate_key_unknown');
  if (key.isCompromised) return invalid('certificate_key_compromised');
  const { signature: certified, ...body } = certificate;
  const [form, x] = [canonical(body), fromBase64Url(certificate['x'])];
  const kid = await keyIdOf(String(certificate['x']));
  if (form === null || x === null || kid !== certificate['kid']) return invalid('certificate_forged');
  const message = `agent-trust.sidecar-key.v1:${await hashOf(form)}`;
  if (!(await verifies(key, message, certified))) return invalid('certificate_forged');
  const leaf = await sha256(Uint8Array.of(0), encode(canonical(statement) ?? ''));
  const root = await rootOf(leaf, index, size, path);
  const signed = root === null ? null : `agent-trust.receipt.v1:${size}:${hexOf(root)}`;
  const own = { purpose: 'sidecar', isCompromised: false, nbf: 0, x };
  if (signed === null || !(await verifies(own, signed, signature))) return invalid('forged');
  const { issued_at: issued, log_by: logBy } = statement;
  const isInTime = String(certificate['not_before']) <= issued && issued <= String(certificate['expires_at']);
  if (!isInTime || issued >= logBy) return invalid('not_in_time');
  if (revokedKids.has(kid)) return invalid('key_revoked');
  if (request !== undefined && (await hashOfRequest(request)) !== statement.request_hash)
    return invalid('other_request');
  return { valid: true, statement, sidecar_id: String(certificate['sidecar_id']) };
}

const hexOf = (bytes: Bytes): string => [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');

const keyIdOf = (x: string): Promise<string> => sha256Base64Url(`{"crv":"Ed25519","kty":"OKP","x":"${x}"}`);

async function hashOfRequest(request: Json): Promise<string | null> {
  const { proof: _proof, approval_id: _approvalId, ...rest } = request;
  const form = canonical(rest);
  return form === null ? null : hashOf(form);
}

function revokedOf(revoked: unknown): ReadonlySet<unknown> {
  if (revoked === undefined) return new Set();
  const list = isObject(revoked) ? revoked['revoked'] : null;
  if (!Array.isArray(list)) throw new TypeError('revoked must be the parsed /.well-known/sidecar-keys.json');
  return new Set(list.map((each) => (isObject(each) ? each['kid'] : null)));
}

const time = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/;
const hash = /^sha256:[0-9a-f]{64}$/;
const statementMembers = [
  ...['attestation_id', 'chain_id', 'decision', 'gate_id', 'issued_at', 'log_by', 'reason', 'request_hash'],
];
const certificateMembers = [
  ...['account_id', 'expires_at', 'kid', 'not_before', 'purpose', 'sidecar_id', 'signature'],
  ...['signing_key_id', 'x'],
];
const receiptMembers = [
  ...['certificate', 'format', 'history', 'index', 'path', 'signature', 'size', 'statement'],
];
const turnMax = 1_024;

const hasExactly = (value: unknown, members: readonly string[]): value is Json =>
  isObject(value) && Object.keys(value).sort().join() === members.join();

function readReceipt(receipt: unknown) {
  if (!hasExactly(receipt, receiptMembers) || receipt['format'] !== 'agent-trust.receipt.v1') return null;
  const { statement, certificate, index, size, path, signature } = receipt;
  if (!hasExactly(statement, statementMembers) || !hasExactly(certificate, certificateMembers)) return null;
  const isText = (value: unknown) => typeof value === 'string';
  const { issued_at, log_by, decision, request_hash, gate_id, reason, attestation_id, chain_id } = statement;
  const times = [issued_at, log_by, certificate['not_before'], certificate['expires_at']];
  if (!times.every((each) => isText(each) && time.test(each as string))) return null;
  if (decision !== 'PERMIT' && decision !== 'BLOCK') return null;
  if (!isText(attestation_id) || !isText(chain_id) || !hash.test(String(request_hash))) return null;
  if (![gate_id, reason].every((each) => each === null || isText(each))) return null;
  if (certificate['purpose'] !== 'sidecar' || !Object.values(certificate).every(isText)) return null;
  const isCount = (value: unknown, least: number) =>
    Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= turnMax;
  if (!isCount(index, 0) || !isCount(size, 1) || !Array.isArray(path) || path.length > 10) return null;
  if ((index as number) >= (size as number)) return null;
  const hashes = path.map(fromBase64Url).flatMap((each) => (each?.length === 32 ? [each] : []));
  if (hashes.length !== path.length) return null;
  return {
    ...{ statement: statement as unknown as ReceiptStatement, certificate, path: hashes, signature },
    ...{ index: index as number, size: size as number },
  };
}
