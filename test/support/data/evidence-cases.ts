import type { Attachment } from '../../../shared/attestation/attachments.ts';
import { canonicalJson } from '../../../shared/crypto/canonical-json.ts';
import { contentHash } from '../../../shared/crypto/content-hash.ts';
import type { AttestationRecord } from '../../../shared/model/attestation.ts';
import type { MicroUsd } from '../../../shared/model/money.ts';
import { renderTime } from '../../../shared/model/time.ts';
import { renderCatalog } from '../../../shared/wire/api/catalog.ts';
import type { AnswerProof } from '../../../shared/wire/evidence/answer-proof.ts';
import { signCatalog } from '../../../shared/wire/evidence/catalog-signature.ts';
import { type SignedApproval, signEvidence } from '../../../shared/wire/evidence/evidence.ts';
import { type kinds, proofBy } from './answer-proofs.ts';
import {
  at,
  chainOf,
  exportLinesOf,
  jsonLinesOf,
  jwksOf,
  type SampleKey,
  sampleApproval,
  sampleExtras,
  sampleId,
  sampleKey,
  samplePassport,
  samplePolicy,
  sampleRecord,
} from './sample-chains.ts';

/** An export with one of everything that records name, and what can be done to it. */
export interface EvidenceCase {
  readonly name: string;
  readonly lines: readonly string[];
  readonly isValid: boolean;
  /** Of the service's own verifier. */
  readonly fault?: string;
}

const key = sampleKey(7);
const catalogKey = sampleKey(8, {}, 'catalog');
const stranger = sampleKey(9);
export const evidenceJwks = jwksOf(key, catalogKey);
export const evidenceKeys = [key, catalogKey] as const;

const [passport, other] = [sampleId('pass', 1), sampleId('pass', 2)];
const [asked, removed, standing] = [sampleId('appr', 1), sampleId('appr', 2), sampleId('sappr', 1)];
const [catalog, unnamedCatalog] = [1, 2].map((version) =>
  renderCatalog(
    signCatalog(
      {
        gateId: sampleId('gate', 1),
        version,
        permissions: [],
        more: { 'é\u{1f600}': 1e-7 },
        publishedAtMs: at(0),
      },
      catalogKey,
    ),
  ),
) as [ReturnType<typeof renderCatalog>, ReturnType<typeof renderCatalog>];
const policy = samplePolicy(
  key,
  { approvals: { above_usd: 1, approvers: { count: 2 }, passkey: true } },
  { catalog_hash: catalog.content_hash, catalog_version: 1 },
);
const policyHash = policy.policy_hash;
const inForm2 = { ...sampleExtras, policyHash, approvalId: null };

const suspended: AttestationRecord = sampleRecord(1, {
  ...inForm2,
  decision: 'SUSPEND',
  reason: 'approval_required',
  resolution: 'approved',
  refersTo: asked,
  approvalId: asked,
});
const { requestHash, amountMicroUsd } = suspended;
const ofOther = { chainId: other, passportId: other };
const chains = [
  chainOf(
    [
      suspended,
      sampleRecord(2, { ...inForm2, approvalId: asked, requestHash }),
      sampleRecord(3, { ...inForm2, approvalId: standing }),
      sampleRecord(4, { ...inForm2, approvalId: standing, amountMicroUsd: 1 as MicroUsd }),
    ],
    key,
  ),
  chainOf(
    // In form 1, as before the upgrade.
    [sampleRecord(50, { ...ofOther, decision: 'SUSPEND', resolution: 'denied', refersTo: removed })],
    key,
  ),
];

type Answers = NonNullable<SignedApproval['body']['answers']>;

const answerOf = (
  user: string,
  assertion: AnswerProof | null,
  answer: 'approved' | 'denied' = 'approved',
) => ({
  user_id: user,
  answer,
  at: renderTime(at(500)),
  undone_at: null,
  assertion,
});
const about = {
  approval_id: asked as string,
  request_hash: requestHash,
  amount_micro_usd: amountMicroUsd as number | null,
  policy_hash: policyHash,
  answer: 'approved' as 'approved' | 'denied',
};
const proof = (kind: keyof typeof kinds, change: Partial<typeof about> = {}): AnswerProof =>
  proofBy(kind, {}, { ...about, ...change });
const answers: Answers = [answerOf('usr_1', proof('ES256')), answerOf('usr_2', proof('Ed25519'))];
const [first] = chains.flat() as [(typeof chains)[0] extends (infer Record)[] ? Record : never];

const approvalOf = (change: object, signer: SampleKey = key): Attachment => ({
  approval: sampleApproval(signer, first, asked, { answers, ...change }),
});
const removedApproval: Attachment = {
  approval: signEvidence(
    'approval',
    { approval_id: removed, passport_id: other, removed: true as const },
    key,
  ),
};

const options = { keyIds: [key.kid], createdAtMs: at(60_000), policies: [policy] };
const exported = (...given: readonly Attachment[]): string[] =>
  exportLinesOf(chains, {
    ...options,
    attachments: [{ catalog }, removedApproval, ...(given.length > 0 ? given : [approvalOf({})])],
  });

/** As the service would have written it with this approval: who forges one may hold its keys. */
const byOperator = (change: object): string[] => exported(approvalOf(change));

/** With one more answer. */
const withAnswer = (...given: Parameters<typeof answerOf>): string[] =>
  byOperator({ answers: [...answers, answerOf(...given)] });

/** With the hash of what it says, so that only the names of its keys are wrong. */
function catalogByTwo(): string {
  const { content_hash: _, signature, ...content } = catalog;
  const by = { ...content, signing_key_id: [catalogKey.kid, key.kid] };
  return `${canonicalJson({ catalog: { ...by, content_hash: contentHash(by), signature } })}\n`;
}

const good = (name: string, lines: readonly string[]): EvidenceCase => ({ name, lines, isValid: true });
const bad = (name: string, fault: string, lines: readonly string[]): EvidenceCase => ({
  ...{ name, fault, lines, isValid: false },
});

export function evidenceCases(): readonly EvidenceCase[] {
  const lines = exported();
  const placeOf = (start: string) => lines.findIndex((line) => line.startsWith(start));
  const places = ['policy', 'catalog', 'passport', 'approval'].map(
    (kind) => [kind, placeOf(`{"${kind}"`)] as const,
  );
  const line = (place: number) => lines[place] ?? '';
  const changed = (from: string, to: string) => lines.map((each) => each.replace(from, to));
  const json = jsonLinesOf(chains, {
    ...options,
    attachments: [{ catalog }, removedApproval, approvalOf({})],
  });
  const undone = { ...answerOf('usr_3', proof('RS256')), undone_at: renderTime(at(700)) };
  return [
    good('as it is', lines),
    good('as json', json),
    good('with an answer that was taken back', byOperator({ answers: [...answers, undone] })),
    ...places.flatMap(([kind, place]) => [
      // Without the policy nothing names its catalog.
      bad(
        `without a ${kind}`,
        kind === 'policy' ? 'attachment_unnamed' : 'attachment_missing',
        lines.toSpliced(place, 1),
      ),
      bad(`a ${kind} twice`, 'attachment_order', lines.toSpliced(place, 0, line(place))),
      bad(
        `json: a ${kind} twice`,
        'attachment_order',
        json.toSpliced(
          json.findIndex((each) => each.startsWith(`{"${kind}"`)),
          0,
          `${line(place).trimEnd()},\n`,
        ),
      ),
    ]),
    bad('an approval before the policy', 'attachment_order', [
      ...lines.slice(0, placeOf('{"policy"')),
      line(placeOf('{"approval"')),
      ...lines
        .slice(placeOf('{"policy"'))
        .filter((_, i) => i !== placeOf('{"approval"') - placeOf('{"policy"')),
    ]),
    bad('a chain after them', 'no_chain', lines.toSpliced(-1, 0, line(1))),
    bad('a policy that allows more', 'attachment_mismatch', changed('"above_usd":1', '"above_usd":9')),
    bad('a catalog by two keys', 'no_chain', lines.with(placeOf('{"catalog"'), catalogByTwo())),
    bad('a catalog with another price', 'attachment_mismatch', changed(':1e-7', ':1e-8')),
    bad(
      'a passport that may do more',
      'attachment_mismatch',
      changed('"permissions":["orders:create"]', '"permissions":["orders:delete"]'),
    ),
    bad(
      'a passport without its suspension',
      'attachment_mismatch',
      changed('"status":"suspended"', '"status":"active"'),
    ),
    bad(
      'an approval by somebody else',
      'attachment_mismatch',
      changed('"user_id":"usr_1"', '"user_id":"usr_9"'),
    ),
    bad(
      'a passport by a stranger',
      'attachment_key_unknown',
      exported({ passport: samplePassport(stranger, passport) }, approvalOf({})),
    ),
    bad('an approval by a stranger', 'attachment_key_unknown', exported(approvalOf({}, stranger))),
    bad(
      'a passport signed as an approval',
      'attachment_signature_invalid',
      exported(
        { passport: signEvidence('approval', samplePassport(key, passport).body, key) },
        approvalOf({}),
      ),
    ),
    bad(
      'a passport that no record names',
      'attachment_unnamed',
      exported({ passport: samplePassport(key, sampleId('pass', 3)) }, approvalOf({})),
    ),
    bad(
      'a catalog that no policy names',
      'attachment_unnamed',
      exportLinesOf(chains, {
        ...options,
        attachments: [unnamedCatalog, catalog]
          .sort((one, two) => (one.content_hash < two.content_hash ? -1 : 1))
          .map((each) => ({ catalog: each })),
      }),
    ),
    bad(
      'an approval for another passport',
      'attachment_unnamed',
      exported(
        { approval: sampleApproval(key, first, asked, { answers, passport_id: sampleId('pass', 3) }) },
        approvalOf({}),
      ),
    ),
    bad(
      'an approval of another request',
      'approval_differs',
      byOperator({ request_hash: `sha256:${'0'.repeat(64)}`, answers: [] }),
    ),
    bad(
      'an approval of another amount',
      'approval_differs',
      byOperator({ amount_micro_usd: 1, answers: [] }),
    ),
    bad('an answer that was the other one', 'answer_forged', withAnswer('usr_3', proof('ES256'), 'denied')),
    bad(
      'an answer to another approval',
      'answer_forged',
      withAnswer('usr_3', proof('ES256', { approval_id: removed })),
    ),
    bad(
      'an answer to another amount',
      'answer_forged',
      withAnswer('usr_3', proof('ES256', { amount_micro_usd: 1 })),
    ),
    bad(
      'an answer under another policy',
      'approval_differs',
      withAnswer('usr_3', proof('ES256', { policy_hash: `sha256:${'0'.repeat(64)}` })),
    ),
    bad(
      'an answer by another passkey',
      'answer_forged',
      withAnswer('usr_3', { ...proof('ES256'), public_key: proof('ES256').public_key }),
    ),
    bad('an answer that is not signed', 'answer_missing', withAnswer('usr_3', null)),
    bad('fewer answers than the policy demands', 'answer_missing', byOperator({ answers: answers.slice(1) })),
    bad('no answer at all', 'answer_missing', byOperator({ answers: [] })),
    bad(
      'two answers of one person',
      'answer_missing',
      byOperator({ answers: [answers[0], answerOf('usr_1', proof('ES256'))] }),
    ),
  ];
}

const ofPermit = { ...inForm2, approvalId: asked, requestHash };
const permit = sampleRecord(2, ofPermit);
/** A refund of a PERMIT that used the approval: the record repeats it with another amount. */
const refunded = sampleRecord(3, {
  ...ofPermit,
  ...{ resolution: 'refunded', refersTo: permit.id, amountMicroUsd: 1 as MicroUsd },
});

/** With these records alone, and this approval. */
const withRecords = (records: readonly AttestationRecord[], change: object = {}): readonly string[] =>
  exportLinesOf([chainOf(records, key)], {
    ...options,
    attachments: [{ catalog }, approvalOf(change)],
  });

/** Of PERMITs that used an approval, and what became of them. */
export const permitCases = (): readonly EvidenceCase[] => [
  good('a refund', withRecords([suspended, permit, refunded])),
  good('a refund before which the export begins', withRecords([refunded])),
  good('a refund before the others', withRecords([refunded, suspended])),
  bad(
    'a refund of another request',
    'approval_differs',
    withRecords([suspended, { ...refunded, requestHash: sampleRecord(9).requestHash }]),
  ),
  bad(
    'an amount that differs after a refund',
    'approval_differs',
    withRecords([refunded, suspended], { amount_micro_usd: 1, answers: [] }),
  ),
  bad(
    'a PERMIT without the answers that it used',
    'answer_missing',
    withRecords([permit], { answers: answers.slice(1) }),
  ),
];

/** Two records that name one approval, and are about two requests. */
export function contradictingRecords(): readonly string[] {
  const records = [suspended, sampleRecord(2, { ...inForm2, approvalId: asked })];
  return exportLinesOf([chainOf(records, key)], { ...options, attachments: [{ catalog }, approvalOf({})] });
}
