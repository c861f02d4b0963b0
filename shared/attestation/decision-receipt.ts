import { Compile } from 'typebox/compile';
import { decodeBase64url, encodeBase64url } from '../crypto/base64url.ts';
import { canonicalJson } from '../crypto/canonical-json.ts';
import { contentHash } from '../crypto/content-hash.ts';
import type { Ed25519, Signer } from '../crypto/ed25519.ts';
import { type Keyset, thumbprint } from '../crypto/keyset.ts';
import { assert, must } from '../errors/assert.ts';
import { halvesOf, leafHash, nodeHash, type Range, rootOfInclusion, type TreeHash } from '../log/merkle.ts';
import { parseTime } from '../model/time.ts';
import {
  DecisionReceipt,
  type ReceiptStatement,
  RevokedSidecarKeys,
  receiptFormat,
  receiptTurnMax,
  type SidecarCertificate,
} from '../wire/evidence/decision-receipt.ts';

/** ASCII text that the control plane signs to certify a key of a sidecar. */
const certificateMessage = (body: Omit<SidecarCertificate, 'signature'>): string =>
  `agent-trust.sidecar-key.v1:${contentHash(body)}`;

export const certify = (
  body: Omit<SidecarCertificate, 'signature' | 'signing_key_id' | 'purpose'>,
  key: { readonly kid: string; readonly sign: (text: string) => string },
): SidecarCertificate => {
  const signed = { ...body, purpose: 'sidecar', signing_key_id: key.kid } as const;
  return { ...signed, signature: key.sign(certificateMessage(signed)) };
};

/** What a sidecar signs to show that it has the key. */
export const keyClaim = (sidecarId: string, x: string): Uint8Array =>
  Buffer.from(`agent-trust.sidecar-key-claim.v1:${sidecarId}:${x}`);

const leafOf = (statement: ReceiptStatement): TreeHash => leafHash(Buffer.from(canonicalJson(statement)));

const turnMessage = (size: number, root: TreeHash): Uint8Array =>
  Buffer.from(`${receiptFormat}:${size}:${Buffer.from(root).toString('hex')}`);

export type TurnReceipt = Pick<DecisionReceipt, 'statement' | 'index' | 'size' | 'path' | 'signature'>;

/** Signs all statements of a turn at once: at least one, at most `receiptTurnMax`. */
export function signTurn(signer: Signer, statements: readonly ReceiptStatement[]): TurnReceipt[] {
  const size = statements.length;
  assert(size >= 1, 'a turn has a statement');
  assert(size <= receiptTurnMax, 'a turn has as many statements as a receipt counts');
  const { root, paths } = treeOf(statements.map(leafOf));
  const signature = encodeBase64url(signer.sign(turnMessage(size, root)));
  return statements.map((statement, index) => ({
    statement,
    index,
    size,
    path: must(paths[index], 'each leaf has a path'),
    signature,
  }));
}

/**
 * The tree of RFC 6962 §2.1, and the inclusion path of each leaf as base64url, from its sibling up. Each hash
 * is computed and written once: the path of one leaf after the other costs up to twice as much.
 */
function treeOf(leaves: readonly TreeHash[]): { readonly root: TreeHash; readonly paths: string[][] } {
  const paths = leaves.map((): string[] => []);
  const addSibling = ({ from, to }: Range, sibling: TreeHash): void => {
    const text = encodeBase64url(sibling);
    for (let at = from; at < to; at++) paths[at]?.push(text);
  };
  const hashOf = ({ from, to }: Range): TreeHash => {
    if (to - from === 1) return must(leaves[from], 'a leaf');
    const [left, right] = halvesOf({ from, to });
    const [leftHash, rightHash] = [hashOf(left), hashOf(right)];
    addSibling(left, rightHash);
    addSibling(right, leftHash);
    return nodeHash(leftHash, rightHash);
  };
  return { root: hashOf({ from: 0, to: leaves.length }), paths };
}

/** What may be wrong with a receipt, with the texts for people. */
export const receiptFaults = {
  malformed: `this is not a receipt (${receiptFormat})`,
  certificate_key_unknown:
    'the key of the sidecar is certified by no attestation key of the JWKS (fetch the JWKS again)',
  certificate_key_compromised: 'the key that certified the sidecar was declared compromised',
  certificate_forged: 'the certificate of the sidecar does not verify',
  not_in_time: 'the receipt was not issued while the certificate of the sidecar was in force',
  key_revoked: 'the key of the sidecar was revoked: its receipts prove nothing',
  forged: 'the signature is not of this statement: statement, path or signature was changed',
} as const;

export type ReceiptVerdict =
  | { readonly kind: 'valid'; readonly receipt: DecisionReceipt }
  | { readonly kind: 'invalid'; readonly fault: keyof typeof receiptFaults };

/** Keys of sidecars that the operator has revoked, as `/.well-known/sidecar-keys.json` lists them. */
export type RevokedKeys = ReadonlySet<string>;

const shape = Compile(DecisionReceipt);
const revokedShape = Compile(RevokedSidecarKeys);

/** Null: it is no such list. */
export const parseRevokedKeys = (json: unknown): RevokedKeys | null =>
  revokedShape.Check(json) ? new Set(json.revoked.map(({ kid }) => kid)) : null;

/**
 * Whether a sidecar of this service has stated this. `keys`: of the JWKS. Does NOT say whether the record is
 * there: see `ReceiptAgainstExport`. Never throws.
 */
export function verifyReceipt(
  value: unknown,
  {
    ed25519,
    keys,
    revoked,
  }: { readonly ed25519: Ed25519; readonly keys: Keyset; readonly revoked: RevokedKeys },
): ReceiptVerdict {
  const invalid = (fault: keyof typeof receiptFaults): ReceiptVerdict => ({ kind: 'invalid', fault });
  if (!shape.Check(value)) return invalid('malformed');
  const receipt: DecisionReceipt = value;
  const { certificate, statement } = receipt;
  const fault = certificateFault(certificate, keys);
  if (fault !== null) return invalid(fault);
  if (!isSigned(ed25519, receipt)) return invalid('forged');
  const [from, issued, until, logBy] = [
    certificate.not_before,
    statement.issued_at,
    certificate.expires_at,
    statement.log_by,
  ].map((text) => parseTime(text) ?? Number.NaN) as [number, number, number, number];
  if (!(from <= issued && issued <= until && issued < logBy)) return invalid('not_in_time');
  return revoked.has(certificate.kid) ? invalid('key_revoked') : { kind: 'valid', receipt };
}

function certificateFault(
  { signature, ...body }: SidecarCertificate,
  keys: Keyset,
): keyof typeof receiptFaults | null {
  const entry = keys.find('attestation', body.signing_key_id);
  if (entry === null) return 'certificate_key_unknown';
  if (entry.key.compromised) return 'certificate_key_compromised';
  const [x, signed] = [decodeBase64url(body.x), decodeBase64url(signature)];
  if (x === null || signed === null || thumbprint(x) !== body.kid) return 'certificate_forged';
  return entry.verify(Buffer.from(certificateMessage(body)), signed) ? null : 'certificate_forged';
}

function isSigned(
  ed25519: Ed25519,
  { statement, index, size, path, signature, certificate }: DecisionReceipt,
): boolean {
  const proof = path.map(decodeBase64url).filter((hash) => hash !== null);
  const root = rootOfInclusion({ leaf: leafOf(statement), index, proof }, size);
  const [x, signed] = [decodeBase64url(certificate.x), decodeBase64url(signature)];
  if (root === null || x === null || signed === null || proof.length !== path.length) return false;
  try {
    return ed25519.verifier(x)(turnMessage(size, root), signed);
  } catch {
    // A key that is no point of the curve, or of small order.
    return false;
  }
}
