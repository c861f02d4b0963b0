import { type ChainHead, emptyChain, linkAttestation } from '../../shared/attestation/chain.ts';
import { chainLine, endLine, manifestLine, policyLine, recordLine } from '../../shared/attestation/export.ts';
import { jsonWriter } from '../../shared/attestation/export-json.ts';
import { encodeBase64url } from '../../shared/crypto/base64url.ts';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { contentHash } from '../../shared/crypto/content-hash.ts';
import type { Ed25519 } from '../../shared/crypto/ed25519.ts';
import { keyset, renderJwks, thumbprint } from '../../shared/crypto/keyset.ts';
import { must } from '../../shared/errors/assert.ts';
import {
  type Attestation,
  type AttestationRecord,
  type ChainId,
  noExtras,
  type RecordExtras,
  type RecordForm,
} from '../../shared/model/attestation.ts';
import { type Id, type IdPrefix, idRandomBytes, makeId } from '../../shared/model/ids.ts';
import type { MicroUsd } from '../../shared/model/money.ts';
import type { PermissionKey } from '../../shared/model/permission.ts';
import type { KeyPurpose, VerificationKey } from '../../shared/model/signing-key.ts';
import { parseTime, type UnixMillis } from '../../shared/model/time.ts';
import { policyMessage, type SignedPolicy } from '../../shared/wire/policy.ts';

/** Chains and exports with fixed content and real signatures: the same bytes on every run. */
const timeOf = (text: string): UnixMillis => must(parseTime(text), `a time: ${text}`);

export const startMs = timeOf('2026-11-20T09:00:00.000Z');

export const at = (offsetMs: number): UnixMillis => (startMs + offsetMs) as UnixMillis;

/** Different numbers give different ids; the same number the same. */
export const sampleId = <P extends IdPrefix>(prefix: P, number: number): Id<P> =>
  makeId(prefix, at(number), new Uint8Array(idRandomBytes).fill(number));

export interface SampleKey {
  readonly kid: string;
  readonly sign: (message: string) => string;
  readonly verification: VerificationKey;
}

/** A real key whose private half is 32 times the same byte: for tests and the worked example only. */
export function sampleKey(
  seedByte: number,
  change: Partial<VerificationKey> = {},
  purpose: KeyPurpose = 'attestation',
  ed25519: Ed25519 = chooseEd25519(),
): SampleKey {
  const signer = ed25519.signer(new Uint8Array(32).fill(seedByte));
  const kid = thumbprint(signer.publicKey);
  return {
    kid,
    sign: (message) => encodeBase64url(signer.sign(Buffer.from(message, 'utf8'))),
    verification: {
      kid,
      purpose,
      publicKey: encodeBase64url(signer.publicKey),
      notBeforeMs: startMs,
      retiredAtMs: null,
      compromised: false,
      ...change,
    },
  };
}

export const keysetOf = (...keys: readonly SampleKey[]) =>
  keyset(
    chooseEd25519(),
    keys.map(({ verification }) => verification),
  );

export const jwksOf = (...keys: readonly SampleKey[]) =>
  renderJwks(keys.map(({ verification }) => verification));

export function sampleRecord(number: number, change: Partial<AttestationRecord> = {}): AttestationRecord {
  return {
    id: sampleId('att', number),
    chainId: sampleId('pass', 1),
    passportId: sampleId('pass', 1),
    gateId: sampleId('gate', 1),
    decision: 'PERMIT',
    reason: null,
    requestHash: contentHash({ permission_key: 'orders:create', amount: 12.5, order: number }),
    permissionKey: 'orders:create' as PermissionKey,
    amountMicroUsd: 12_500_000 as MicroUsd,
    constraintsEvaluated: ['passport', 'trust_level', 'freshness', 'issuer', 'permission', 'spend_limit'],
    pii: [],
    test: false,
    resolution: null,
    refersTo: null,
    source: sampleId('side', 1),
    sourceAccount: sampleId('acct', 1),
    timestampMs: at(number * 1_000),
    ...noExtras,
    ...change,
  };
}

/** Every member of form 2 with a value. */
export const sampleExtras: RecordExtras = {
  policyHash: 'sha256:cb30d7543e34072a537d796eaa39cf6b37cf5d4234e1c16e7a1f56ff0e788b0d',
  trustLevel: 'L1',
  domain: 'api.example.com',
  stateAgeMs: 350,
  approvalId: sampleId('appr', 1),
  walletId: `wal_${sampleId('appr', 2).slice('appr_'.length)}`,
  holdExpiresAtMs: at(3_600_000),
  proof: 'dpop',
  asserted: false,
};

/** A policy, signed. `constraints`: in the public shape. */
export function samplePolicy(key: SampleKey, constraints: object = {}): SignedPolicy {
  const body = { catalog_hash: null, catalog_version: null, constraints, routes: [], trust_level: 'L1' };
  const policyHash = contentHash(body);
  return {
    body,
    policy_hash: policyHash,
    signature: key.sign(policyMessage(policyHash)),
    signing_key_id: key.kid,
  };
}

/** Links the records one behind the other, from `head` on. */
export function chainOf(
  records: readonly AttestationRecord[],
  key: SampleKey,
  head: ChainHead = emptyChain,
): Attestation[] {
  const linked: Attestation[] = [];
  for (const record of records) linked.push(linkAttestation(record, linked.at(-1) ?? head, key));
  return linked;
}

/** `count` records about one passport. */
export const sampleChain = (key: SampleKey, count: number, passport = 1): Attestation[] => {
  const passportId = sampleId('pass', passport);
  const records = Array.from({ length: count }, (_, i) =>
    sampleRecord(passport * 40 + i, { chainId: passportId, passportId }),
  );
  return chainOf(records, key);
};

const sampleGeneration = `gen_${'5'.repeat(32)}`;

/** The lines of an export of whole chains, each with its newline. */
export function exportLinesOf(
  chains: readonly (readonly Attestation[])[],
  options: {
    readonly keyIds: readonly string[];
    readonly createdAtMs?: UnixMillis;
    readonly sinceMs?: UnixMillis;
    /** Null: as before exports had one. */
    readonly generation?: string | null;
    /** Default: 2. */
    readonly form?: RecordForm;
    /** Default: none. */
    readonly policies?: readonly SignedPolicy[];
  },
): string[] {
  const { keyIds, createdAtMs = at(3_600_000), sinceMs = null, generation = sampleGeneration } = options;
  const { form = 2, policies = [] } = options;
  const lines = [manifestLine({ form, createdAtMs, sinceMs, generation, keyIds })];
  for (const records of chains) {
    const first = must(records[0], 'an exported chain has a record');
    const last = must(records.at(-1), 'an exported chain has a record');
    lines.push(headerOf(first, last), ...records.map(recordLine));
  }
  const records = chains.reduce((sum, chain) => sum + chain.length, 0);
  lines.push(...policies.map(policyLine));
  return [...lines, endLine({ chains: chains.length, records, broken: [], brokenUnnamed: 0 })];
}

/** The same export as json: its lines, each with its newline. */
export function jsonLinesOf(...[chains, options]: Parameters<typeof exportLinesOf>): string[] {
  const { keyIds, createdAtMs = at(3_600_000), sinceMs = null, generation = sampleGeneration } = options;
  const { form = 2, policies = [] } = options;
  const writer = jsonWriter();
  let text = writer.manifest({ form, createdAtMs, sinceMs, generation, keyIds });
  for (const records of chains) {
    const first = must(records[0], 'an exported chain has a record');
    const last = must(records.at(-1), 'an exported chain has a record');
    text += writer.chain({
      chainId: first.chainId,
      archived: null,
      firstSequence: first.sequence,
      previousAttestationHash: first.previousAttestationHash,
      lastSequence: last.sequence,
      lastHash: last.hash,
    });
    for (const record of records) text += writer.record(record);
  }
  const records = chains.reduce((sum, chain) => sum + chain.length, 0);
  for (const policy of policies) text += writer.policy(policy);
  text += writer.end({ chains: chains.length, records, broken: [], brokenUnnamed: 0 });
  return text.split(/(?<=\n)/);
}

export const headerOf = (first: Attestation, last: Attestation, chainId: ChainId = first.chainId): string =>
  chainLine({
    chainId,
    archived: null,
    firstSequence: first.sequence,
    previousAttestationHash: first.previousAttestationHash,
    lastSequence: last.sequence,
    lastHash: last.hash,
  });
