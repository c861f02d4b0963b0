import { type Attachment, attachmentLine } from '../../../shared/attestation/attachments.ts';
import { type ChainHead, emptyChain, linkAttestation } from '../../../shared/attestation/chain.ts';
import { chainLine, endLine, manifestLine, recordLine } from '../../../shared/attestation/export.ts';
import { jsonWriter } from '../../../shared/attestation/export-json.ts';
import { approvalsOf } from '../../../shared/attestation/named-approvals.ts';
import { encodeBase64url } from '../../../shared/crypto/base64url.ts';
import { chooseEd25519 } from '../../../shared/crypto/choose-ed25519.ts';
import { contentHash } from '../../../shared/crypto/content-hash.ts';
import type { Ed25519 } from '../../../shared/crypto/ed25519.ts';
import { keyset, renderJwks, thumbprint } from '../../../shared/crypto/keyset.ts';
import { must } from '../../../shared/errors/assert.ts';
import {
  type Attestation,
  type AttestationRecord,
  type CarriedMembers,
  noExtras,
  type RecordExtras,
  type RecordForm,
} from '../../../shared/model/attestation.ts';
import type { IdDigest } from '../../../shared/model/id-digest.ts';
import { type Id, type IdPrefix, idRandomBytes, makeId } from '../../../shared/model/ids.ts';
import type { MicroUsd } from '../../../shared/model/money.ts';
import type { PermissionKey } from '../../../shared/model/permission.ts';
import type { KeyPurpose, VerificationKey } from '../../../shared/model/signing-key.ts';
import { parseTime, renderTime, type UnixMillis } from '../../../shared/model/time.ts';
import {
  type SignedApproval,
  type SignedPassport,
  signEvidence,
} from '../../../shared/wire/evidence/evidence.ts';
import { policyMessage, type SignedPolicy } from '../../../shared/wire/evidence/policy.ts';

/** Chains and exports with fixed content and real signatures: the same bytes on every run. */
const timeOf = (text: string): UnixMillis => must(parseTime(text), `a time: ${text}`);

const startMs = timeOf('2026-11-20T09:00:00.000Z');

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
  const key: SampleKey = {
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
  made.set(kid, key);
  return key;
}

const made = new Map<string, SampleKey>();

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
  approvalId: sampleId('sappr', 1),
  walletId: `wal_${sampleId('appr', 2).slice('appr_'.length)}`,
  holdExpiresAtMs: at(3_600_000),
  proof: 'dpop',
  asserted: false,
  walletPath: ['A'.repeat(22), '-_'.repeat(11)] as IdDigest[],
  carried: null,
};

const commitment = `sha256:${'c'.repeat(64)}`;

/** Every member that this version carries and does not judge, with a value. */
export const sampleCarried: CarriedMembers = {
  conditions: ['office-hours', 'eu-only'],
  external: { commitment, decision: null },
  facts: [{ commitment, path: '/request/bücher/😀"' }],
  permit_token: sampleId('att', 9),
  shadow: { condition: null, decision: 'BLOCK', policy_hash: commitment, reason: 'condition_not_met' },
  units: { mb: 0, tokens: Number.MAX_SAFE_INTEGER },
  user: commitment,
};

/** A policy, signed. `constraints`: in the public shape. */
export function samplePolicy(
  key: SampleKey,
  constraints: object = {},
  catalog: { readonly catalog_hash: string; readonly catalog_version: number } | null = null,
): SignedPolicy {
  const named = catalog ?? { catalog_hash: null, catalog_version: null };
  const body = { ...named, constraints, routes: [], trust_level: 'L1' };
  const policyHash = contentHash(body);
  return {
    body,
    policy_hash: policyHash,
    signature: key.sign(policyMessage(policyHash)),
    signing_key_id: key.kid,
  };
}

export function samplePassport(key: SampleKey, passportId: string, change: object = {}): SignedPassport {
  const body: SignedPassport['body'] = {
    passport_id: passportId,
    account_id: sampleId('acct', 1),
    mode: 'live',
    issuer_id: sampleId('iss', 1),
    agent_id: 'buyer-7',
    agent_name: 'Bücher & Co 😀',
    permissions: ['orders:create'],
    constraints: { spend_limits: { daily_usd: 0.000001 } },
    trust_tier: 'L1',
    public_key: `ed25519:${'A'.repeat(43)}`,
    token_hash: '5'.repeat(64),
    token_signing_key_id: key.kid,
    issued_at: renderTime(startMs),
    expires_at: null,
    status_changes: [
      { at: renderTime(at(1)), status: 'suspended' },
      { at: renderTime(at(2)), status: 'active' },
    ],
    status_changes_omitted: 0,
    ...change,
  };
  return signEvidence('passport', body, key);
}

/** Of the approval that this record names. */
export function sampleApproval(
  key: SampleKey,
  record: Attestation,
  approvalId: string,
  change: object = {},
): SignedApproval {
  const { chainId: passport_id, gateId, requestHash, permissionKey, amountMicroUsd } = record;
  const about = { approval_id: approvalId, passport_id, gate_id: gateId ?? sampleId('gate', 1) };
  const created_at = renderTime(startMs);
  if (approvalId.startsWith('sappr_')) {
    const amounts = { each_micro_usd: 20_000_000, total_micro_usd: 100_000_000 };
    const times = { created_at, expires_at: renderTime(at(3_600_000)), ended_at: null, ended_by: null };
    const body = {
      ...about,
      ...amounts,
      ...times,
      permission_key: permissionKey,
      created_by: 'key_1',
      ...change,
    };
    return signEvidence('approval', body, key);
  }
  const body = {
    ...about,
    ...{ permission_key: permissionKey, request_hash: requestHash, amount_micro_usd: amountMicroUsd },
    ...{ created_at, resolved_at: renderTime(at(1_000)), resolved_by: 'key_1', requesters: null },
    ...{ answers: [], answers_omitted: 0 },
    ...change,
  };
  return signEvidence('approval', body, key);
}

/** What the records name beside policies, in the order of an export. */
function sampleAttachments(
  chains: readonly (readonly Attestation[])[],
  key: SampleKey,
  given: readonly Attachment[],
): readonly Attachment[] {
  const passports = new Map<string, Attachment>();
  const approvals = new Map<string, Attachment>();
  for (const record of chains.flat()) {
    const { passportId } = record;
    if (passportId !== null) passports.set(passportId, { passport: samplePassport(key, passportId) });
    for (const { name, approvalId } of approvalsOf(record))
      approvals.set(name, { approval: sampleApproval(key, record, approvalId) });
  }
  for (const each of given) {
    if ('passport' in each) passports.set(each.passport.body.passport_id, each);
    if ('approval' in each)
      approvals.set(`${each.approval.body.passport_id} ${each.approval.body.approval_id}`, each);
  }
  const sorted = (found: Map<string, Attachment>) =>
    [...found].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, attachment]) => attachment);
  const others = given.filter((each) => 'policy' in each || 'catalog' in each);
  return [...others, ...sorted(passports), ...sorted(approvals)];
}

/** Links the records one after the other, from `head` on. */
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
    /** Catalogs, and passports and approvals in place of samples. */
    readonly attachments?: readonly Attachment[];
  },
): string[] {
  const lines = [manifestLine(manifestOf(options))];
  for (const records of chains) {
    const first = must(records[0], 'an exported chain has a record');
    const last = must(records.at(-1), 'an exported chain has a record');
    lines.push(chainLine(chainPart(first, last)), ...records.map(recordLine));
  }
  const records = chains.reduce((sum, chain) => sum + chain.length, 0);
  lines.push(...attachmentsOf(chains, options).map(attachmentLine));
  return [...lines, endLine({ chains: chains.length, records, broken: [], brokenUnnamed: 0 })];
}

function manifestOf(options: Parameters<typeof exportLinesOf>[1]) {
  const { keyIds, createdAtMs = at(3_600_000), sinceMs = null, generation = sampleGeneration } = options;
  return { form: options.form ?? 2, createdAtMs, sinceMs, generation, keyIds };
}

function attachmentsOf(...[chains, options]: Parameters<typeof exportLinesOf>): readonly Attachment[] {
  const { form = 2, keyIds, policies = [], attachments = [] } = options;
  if (form === 1 || chains.length === 0) return [];
  const key = must(made.get(keyIds[0] ?? ''), 'the first key of a sample export is a sample key');
  return sampleAttachments(chains, key, [...policies.map((policy) => ({ policy })), ...attachments]);
}

/** The same export as json: its lines, each with its newline. */
export function jsonLinesOf(...[chains, options]: Parameters<typeof exportLinesOf>): string[] {
  const writer = jsonWriter();
  let text = writer.manifest(manifestOf(options));
  for (const records of chains) {
    const first = must(records[0], 'an exported chain has a record');
    const last = must(records.at(-1), 'an exported chain has a record');
    text += writer.chain(chainPart(first, last));
    for (const record of records) text += writer.record(record);
  }
  const records = chains.reduce((sum, chain) => sum + chain.length, 0);
  for (const each of attachmentsOf(chains, options)) text += writer.attachment(each);
  text += writer.end({ chains: chains.length, records, broken: [], brokenUnnamed: 0 });
  return text.split(/(?<=\n)/);
}

const chainPart = (first: Attestation, last: Attestation) => ({
  ...{ chainId: first.chainId, archived: null, logProof: null },
  ...{ firstSequence: first.sequence, previousAttestationHash: first.previousAttestationHash },
  ...{ lastSequence: last.sequence, lastHash: last.hash },
});
