import { Webhook } from 'standardwebhooks';
import { verifyAttestations } from '../../../clients/node/src/verify.ts';
import { findProofFault } from '../../../shared/attestation/answer-proof.ts';
import { factsLine } from '../../../shared/attestation/export.ts';
import { chooseEd25519 } from '../../../shared/crypto/choose-ed25519.ts';
import { noCarried } from '../../../shared/model/attestation.ts';
import { type OpeningFact, openingOf, renderFact } from '../../../shared/wire/evidence/fact.ts';
import { answered, kinds, proofBy } from '../../support/data/answer-proofs.ts';
import {
  bytesOf,
  craft,
  type EdgeCase,
  order,
  smallOrderKeys,
  toBytes,
  toNumber,
} from '../../support/data/ed25519-edge-cases.ts';
import {
  contradictingRecords,
  evidenceCases,
  evidenceJwks,
  evidenceKeys,
  permitCases,
} from '../../support/data/evidence-cases.ts';
import {
  at,
  chainOf,
  exportLinesOf,
  jsonLinesOf,
  jwksOf,
  type SampleKey,
  sampleCarried,
  sampleChain,
  sampleExtras,
  sampleId,
  sampleKey,
  samplePolicy,
  sampleRecord,
} from '../../support/data/sample-chains.ts';
import { earlierExportLines, earlierJwks } from '../../vectors/earlier-export.ts';
import { rfc8032Vectors } from '../../vectors/rfc8032.ts';

/** What the verifiers of the Python client have to say the same of as those that are there already. */
export async function casesForPython(): Promise<object> {
  return {
    signatures: signatures(),
    exports: await exportsToVerify(),
    webhooks: webhooks(),
    answers: answers(),
  };
}

/** Signed answers to an approval, and such that are none, by the verdict of the service's own verifier. */
function answers(): readonly object[] {
  const kindsOfKey = Object.keys(kinds) as (keyof typeof kinds)[];
  return kindsOfKey.flatMap((kind) => {
    const proof = proofBy(kind);
    const other = proofBy(kind);
    const cases = [
      { approval: answered, proof },
      { approval: { ...answered, amount_micro_usd: 1 }, proof },
      { approval: { ...answered, answer: 'denied' as const }, proof },
      { approval: answered, proof: { ...proof, signature: other.signature } },
      { approval: answered, proof: { ...proof, signature: 'AAAA' } },
      { approval: answered, proof: proofBy(kind, { flags: 1 }) },
      { approval: answered, proof: proofBy(kind, { origin: 'https://evil.example.com' }) },
      { approval: answered, proof: proofBy(kind, { rpId: 'evil.example.com' }) },
      { approval: answered, proof: proofBy(kind, { type: 'webauthn.create' }) },
    ];
    return cases.map(({ approval, proof: assertion }) => ({
      approval,
      answer: { answer: approval.answer, assertion },
      valid: findProofFault(approval, assertion) === null,
    }));
  });
}

const engine = chooseEd25519();
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

function isValid({ publicKey, message, signature }: EdgeCase): boolean {
  try {
    return engine.verifier(publicKey)(message, signature);
  } catch {
    // A key that is not imported verifies nothing.
    return false;
  }
}

function signatures(): readonly object[] {
  const seed = bytesOf('000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f');
  const message = Uint8Array.from(Buffer.from('the message', 'utf8'));
  const signer = engine.signer(seed);
  const [publicKey, signature] = [signer.publicKey, signer.sign(message)];
  const [r, s] = [signature.subarray(0, 32), signature.subarray(32)];
  const own = (name: string, change: Partial<EdgeCase>): readonly [string, EdgeCase] => [
    name,
    { publicKey, message, signature, ...change },
  ];
  const joined = (...parts: readonly Uint8Array[]) => Uint8Array.from(parts.flatMap((part) => [...part]));
  const cases: (readonly [string, EdgeCase])[] = [
    own('an honest one', {}),
    own('of another message', { message: Uint8Array.of(1) }),
    own('too short', { signature: signature.subarray(0, 63) }),
    own('too long', { signature: joined(signature, Uint8Array.of(0)) }),
    own('with the order added to S', { signature: joined(r, toBytes(toNumber(s) + order)) }),
    own('with S zero', { signature: joined(r, new Uint8Array(32)) }),
    own('of a key that is no point', { publicKey: bytesOf(`02${'00'.repeat(31)}`) }),
    own('of a key whose y is not below the prime', { publicKey: bytesOf(`f0${'ff'.repeat(30)}7f`) }),
    own('of a key that is too short', { publicKey: publicKey.subarray(1) }),
    ...smallOrderKeys.flatMap((point) => [
      own(`of the key ${point}`, { publicKey: bytesOf(point) }),
      own(`with R ${point}`, { signature: joined(bytesOf(point), s) }),
    ]),
    ...rfc8032Vectors.map((vector): readonly [string, EdgeCase] => [
      vector.name,
      {
        publicKey: bytesOf(vector.publicKey),
        message: bytesOf(vector.message),
        signature: bytesOf(vector.signature),
      },
    ]),
  ];
  for (let torsion = 0; torsion < 8; torsion += 1) {
    for (const [keyTorsion, nonceTorsion, nonce] of [
      [torsion, 0, 77n],
      [0, torsion, 77n],
      [torsion, 8 - torsion, 77n],
      [torsion, torsion, 0n],
    ] as const) {
      const options = { secret: BigInt(torsion + 5), nonce, keyTorsion, nonceTorsion, message };
      cases.push([`torsion ${keyTorsion} ${nonceTorsion} ${nonce}`, craft(options)]);
    }
  }
  return cases.map(([name, each]) => ({
    name,
    valid: isValid(each),
    publicKey: hex(each.publicKey),
    message: hex(each.message),
    signature: hex(each.signature),
  }));
}

const evidenceLines = (): readonly string[] => evidenceCases()[0]?.lines ?? [];
const [statementKey, catalogKey] = evidenceKeys;
const compromisedJwks = jwksOf(
  { ...statementKey, verification: { ...statementKey.verification, compromised: true } },
  catalogKey,
);

/** These lines, and those after the chains. */
const inOrder = (lines: readonly string[], order: readonly number[]): readonly string[] => [
  ...order.map((i) => lines[i] ?? ''),
  ...lines.slice(5),
];

/** Each with the verdict of the client for Node.js, and the line at which it found the fault. */
async function exportsToVerify(): Promise<readonly object[]> {
  const key = sampleKey(7);
  const chain = sampleChain(key, 3);
  const options = { keyIds: [key.kid], createdAtMs: at(60_000) };
  const lines = exportLinesOf([chain], options);
  const replace = (place: number, from: string | RegExp, to: string) =>
    lines.map((line, i) => (i === place ? line.replace(from, to) : line));
  const two = [
    chainOf([sampleRecord(1)], key),
    chainOf([sampleRecord(2, { chainId: sampleId('pass', 9), passportId: sampleId('pass', 9) })], key),
  ];
  const twoChains = exportLinesOf(two, options);
  const json = jsonLinesOf([chain], options);
  const policies = [
    samplePolicy(key),
    // Numbers that Python writes in another way, and names beyond ASCII in the order of UTF-16.
    samplePolicy(key, { amounts: [1e-6, 1e-7, 1.5e-9, 100.5, 1e16, 1e21, 123456789012345680000, 0.1] }),
    samplePolicy(key, { '\ufb33': 1, '\u{1f600}': 2, é: 3 }),
  ].sort((one, other) => (one.policy_hash < other.policy_hash ? -1 : 1));
  const policyNames = policies.map(({ policy_hash }) => policy_hash);
  const inForm2 = policyNames.map((policyHash, i) =>
    sampleRecord(2 + i, { ...sampleExtras, policyHash, carried: i === 0 ? sampleCarried : null }),
  );
  const mixed = chainOf([sampleRecord(1), ...inForm2, sampleRecord(9)], key);
  const form2 = exportLinesOf([mixed], { ...options, policies });
  const replace2 = (place: number, from: string | RegExp, to: string) =>
    form2.map((line, i) => (i === place ? line.replace(from, to) : line));
  const json2 = jsonLinesOf([mixed], { ...options, policies });
  const earlier = earlierExportLines.map((line) => (line.endsWith('\n') ? line : `${line}\n`));
  const jwks = jwksOf(key);
  const table: readonly (readonly [string, readonly string[], unknown?])[] = [
    ['as it is', lines],
    ['of an earlier build', earlier, earlierJwks],
    ['both forms, with policies', form2],
    ['both forms, with policies, as json', json2],
    ['form 2 in the format of before', replace2(0, 'attestations.v2', 'attestations.v1')],
    ['form 2 without one of its members', replace2(3, '"proof":"dpop",', '')],
    ['form 2 with a number for a truth value', replace2(3, '"asserted":false', '"asserted":0')],
    ['form 2 with half a unit', replace2(3, '"mb":0', '"mb":0.5')],
    [
      'form 2 with a fact without its commitment',
      replace2(3, '"facts":[{"commitment":', '"facts":[{"comm":'),
    ],
    ['form 2 with another policy', replace2(3, policyNames[0] ?? '', policyNames[1] ?? '')],
    ['a policy is missing', form2.toSpliced(7, 1)],
    ['policies are exchanged', form2.toSpliced(7, 2, form2[8] ?? '', form2[7] ?? '')],
    ['a policy that no record names', exportLinesOf([chain], { ...options, policies })],
    ['a policy is changed', form2.map((line) => line.replace('"trust_level":"L1"}', '"trust_level":"L3"}'))],
    [
      'a policy by another key',
      form2.map((line) => line.replace(/(y_hash":"[^"]+","signature":")../, '$1AA')),
    ],
    ['a policy with a number as Python writes it', form2.map((line) => line.replace('0.000001', '1e-06'))],
    [
      'a policy with its members in the order of code points',
      form2.map((line) => line.replace('"\u{1f600}":2,"\ufb33":1', '"\ufb33":1,"\u{1f600}":2')),
    ],
    [
      'a policy with 400 arrays in arrays',
      form2.map((line) =>
        line.replace('"L1"},"policy', `"L1","zzz":${'['.repeat(400)}${']'.repeat(400)}},"policy`),
      ),
    ],
    ['a policy within a chain', form2.toSpliced(4, 0, form2[7] ?? '')],
    ['a chain after a policy', [...form2.slice(0, -1), ...lines.slice(1, 5), form2.at(-1) ?? '']],
    [
      'json: a policy is missing',
      json2.filter((line) => !line.includes(policyNames[0] ?? '') || line.includes('"id"')),
    ],
    ['json: attachments without one', json2.filter((line) => !line.startsWith('{"policy"'))],
    ...factCases(key),
    ['two chains', twoChains],
    ['chains in another order', inOrder(twoChains, [0, 3, 4, 1, 2])],
    ['a chain is missing', inOrder(twoChains, [0, 1, 2])],
    ['a record is missing', lines.filter((_, i) => i !== 3)],
    ['records are exchanged', inOrder(lines, [0, 1, 3, 2, 4])],
    ['the last record is missing', lines.filter((_, i) => i !== 4)],
    ['the header is missing', lines.filter((_, i) => i !== 1)],
    ['the manifest is missing', lines.slice(1)],
    ['something follows the end', [...lines, '{}\n']],
    ['an empty line', [...lines.slice(0, 2), '\n', ...lines.slice(2)]],
    ['carriage returns', lines.map((line) => line.replace('\n', '\r\n'))],
    ['a byte order mark', ['\ufeff', ...lines]],
    ['another decision', replace(3, /"decision":"[A-Z]+"/, '"decision":"SUSPEND"')],
    ['a decision twice', replace(3, '"decision":', '"decision":"PERMIT","decision":')],
    ['a fraction', replace(3, '"sequence":2', '"sequence":2.0')],
    ['a number for a truth value', replace(3, '"test":false', '"test":0')],
    ['another signature', replace(3, /"signature":"../, '"signature":"AA')],
    ['a signature with padding', replace(3, /("signature":"[^"]+)"/, '$1=="')],
    ['an unknown key', replace(3, /("signing_key_id":")../, '$1AA')],
    ['a further member', replace(3, '"timestamp"', '"z":1,"timestamp"')],
    ['a member less', replace(3, /"id":"[^"]*",/, '')],
    ['another last hash', replace(1, /("last_hash":"sha256:)../, '$1zz')],
    ['made before its key', replace(0, /("created_at":")\d{4}/, '$12020')],
    ['another format', replace(0, 'attestations.v2', 'attestations.v3')],
    ['the format of before, which holds these records too', replace(0, 'attestations.v2', 'attestations.v1')],
    ['no keys', replace(0, /"key_ids":\[[^\]]*\]/, '"key_ids":[]')],
    ['since later than its first record', replace(0, '"since":null', '"since":"2027-01-01T00:00:00.000Z"')],
    ['a surrogate', replace(3, '"source":"', '"source":"\\ud800')],
    ['json', json],
    ['json: without a chain', jsonLinesOf([], options)],
    ['json: a closing line is missing', json.filter((line) => !line.startsWith(']}'))],
    ['json: a comma too many', json.map((line) => line.replace(/^\]\}\n$/, ']},\n'))],
    ['json: a comma after the last record', json.map((line, i) => (i === 4 ? `${line.trimEnd()},\n` : line))],
    ['json: a record after the end', [...json, json[2] ?? '']],
    ['json: a chain in a chain', json.flatMap((line, i) => (i === 2 ? [json[1] ?? '', line] : [line]))],
    ['json: written anew', [`${JSON.stringify(JSON.parse(json.join('')))}\n`]],
    ['a key of another purpose', lines, jwksOf(sampleKey(7, {}, 'passport'))],
    ['a compromised key', lines, jwksOf(sampleKey(7, { compromised: true }))],
    ['a key from later', lines, jwksOf(sampleKey(7, { notBeforeMs: at(60_000 + 61_000) }))],
    ['another key', lines, jwksOf(sampleKey(8))],
    ...[...evidenceCases(), ...permitCases()].map(
      ({ name, lines: of }) => [`evidence: ${name}`, of, evidenceJwks] as const,
    ),
    ['evidence: by a compromised key', evidenceLines(), compromisedJwks],
    ['evidence: records contradict each other', contradictingRecords(), evidenceJwks],
  ];
  return Promise.all(
    table.map(async ([name, changed, keys = jwks]) => {
      const text = changed.join('');
      const verdict = await verifyAttestations(text, keys);
      const lineCount = changed.join('').split('\n').length - 1;
      return verdict.valid
        ? { name, text, jwks: keys, valid: true, line: lineCount, ...counts(verdict) }
        : { name, text, jwks: keys, valid: false, line: verdict.line, ...nothing };
    }),
  );
}

/** Exports with values after their records (docs/facts.md), and such that no verifier takes. */
function factCases(key: SampleKey): readonly (readonly [string, readonly string[]])[] {
  const made = [100, 1.5e-9, 'Größe', { b: ['x'.repeat(2_000)] }, undefined, null].map((value, n) => {
    const path = `/request/${n}`;
    return { path, ...openingOf(path, Buffer.alloc(16, n).toString('base64url'), value) };
  });
  const facts = made.map(({ commitment, path }) => ({ commitment, path }));
  const user = openingOf('/user', 'AAECAwQFBgcICQoLDA0ODw', 'ada');
  const withFacts = { ...sampleExtras, policyHash: null, carried: { ...noCarried, facts } };
  const withUser = { ...withFacts, carried: { ...noCarried, user: user.commitment } };
  const chain = chainOf([sampleRecord(1, withFacts), sampleRecord(2, withUser)], key);
  const [plain, opened] = [exportLinesOf, jsonLinesOf].map((linesOf) =>
    linesOf([chain], { keyIds: [key.kid], createdAtMs: at(60_000) }),
  ) as [string[], string[]];
  const lineOf = (place: number, openings: readonly OpeningFact[]) =>
    factsLine({ attestation_id: chain[place]?.id ?? '', facts: openings.map(renderFact) });
  const [first, last] = [
    lineOf(
      0,
      made.map(({ opening }) => opening),
    ),
    lineOf(1, [user.opening]),
  ];
  const whole = plain.toSpliced(4, 0, last).toSpliced(3, 0, first);
  const asJson = opened
    .toSpliced(3, 1, `${opened[3]?.trimEnd()},\n`, last)
    .toSpliced(3, 0, `${first.trimEnd()},\n`);
  const changed = (from: string | RegExp, to: string) => whole.map((line) => line.replace(from, to));
  const long = { b: ['x'.repeat(2_000)] };
  return [
    ['facts', whole],
    ['facts as json', asJson],
    ['facts of one record alone', plain.toSpliced(3, 0, first)],
    [
      'facts with a whole value that is committed by its hash',
      changed(/"hashed":true,(.*?)"value":"sha256:[0-9a-f]+"/, `$1"value":${JSON.stringify(long)}`),
    ],
    ['facts: another value', changed('"value":100', '"value":101')],
    ['facts: another salt', changed('"salt":"AAAAAAAAAAAAAAAAAAAAAA"', '"salt":"AAAAAAAAAAAAAAAAAAAAAQ"')],
    ['facts: null for absent', changed('"absent":true,', '')],
    ['facts: a further member', changed('"path":"/request/0"', '"more":1,"path":"/request/0"')],
    ['facts: a member less', changed(/"salt":"A{22}",/, '')],
    ['facts: absent as a text', changed('"absent":true', '"absent":"true"')],
    ['facts: of another record', plain.toSpliced(3, 0, last)],
    ['facts: twice', whole.toSpliced(3, 0, first)],
    ['facts: before their record', plain.toSpliced(2, 0, first)],
    ['facts: after the passports', plain.toSpliced(-1, 0, last)],
    ['facts: of no record', whole.toSpliced(4, 1)],
  ];
}

const nothing = {
  ...{ compromised: 0, compromised_statements: 0, removed_approvals: 0 },
  ...{ facts_opened: 0, facts_withheld: 0 },
};
type Valid = Extract<Awaited<ReturnType<typeof verifyAttestations>>, { readonly valid: true }>;
const counts = ({
  compromised,
  compromised_statements,
  removed_approvals,
  ...facts
}: Valid): typeof nothing => ({
  ...{ compromised, compromised_statements, removed_approvals },
  ...{ facts_opened: facts.facts_opened, facts_withheld: facts.facts_withheld },
});

function webhooks(): readonly object[] {
  const secret = `whsec_${Buffer.alloc(24, 7).toString('base64')}`;
  const other = `whsec_${Buffer.alloc(24, 8).toString('base64')}`;
  const nowMs = Date.parse('2026-11-20T10:36:42.000Z');
  const body = JSON.stringify({
    event: 'passport.revoked',
    timestamp: '2026-11-20T10:36:42.024Z',
    data: { reason: 'Größe' },
  });
  /** Signed by the library of the standard, which knows nothing of this service. */
  const signed = (text: string, secrets = [secret]) => ({
    'webhook-id': 'evt_1',
    'webhook-timestamp': String(nowMs / 1_000),
    'webhook-signature': secrets
      .map((each) => new Webhook(each).sign('evt_1', new Date(nowMs), text))
      .join(' '),
  });
  const events = ['', 'null', '{}', '[]', '{"event":"a","timestamp":"b"}', '['.repeat(100_000)];
  const of = (name: string, fault: string | null, change: object = {}) => ({
    name,
    fault,
    body,
    headers: signed(body),
    secrets: [secret],
    now_s: nowMs / 1_000,
    ...change,
  });
  const { 'webhook-id': _, ...withoutId } = signed(body);
  return [
    of('as it is', null),
    of('with names as HTTP writes them', null, { headers: { ...withoutId, 'Webhook-Id': 'evt_1' } }),
    ...[
      { specversion: '1.0', type: 'agent-trust.passport.revoked', time: '2026-11-20T10:36:42.024Z' },
      { specversion: '1.0', type: 'com.example.passport.revoked', time: '2026-11-20T10:36:42.024Z' },
      { specversion: '1.0', type: 'agent-trust.passport.revoked' },
      { specversion: '1.0', type: 7, time: '2026-11-20T10:36:42.024Z' },
      { specversion: '0.3', type: 'agent-trust.passport.revoked', time: '2026-11-20T10:36:42.024Z' },
    ].map((attributes, i) => {
      const text = JSON.stringify({ ...attributes, data: { reason: 'Größe' } });
      const fault = i === 0 ? null : 'malformed';
      return of(`as a CloudEvent, ${i}`, fault, { body: text, headers: signed(text) });
    }),
    of('with values in lists', null, {
      headers: Object.entries(signed(body)).map(([name, value]) => [name.toUpperCase(), [value]]),
    }),
    of('as pairs, with a second signature', null, {
      headers: [...Object.entries(signed(body)), ['webhook-signature', 'v1,AAAA']],
    }),
    of('with signatures as proxies join them', null, {
      headers: { ...signed(body), 'webhook-signature': `v1,AAAA, ${signed(body)['webhook-signature']}` },
    }),
    of('with two ids', 'headers_missing', { headers: { ...signed(body), 'Webhook-Id': 'evt_2' } }),
    of('with a time in a list of two', 'headers_missing', {
      headers: { ...signed(body), 'webhook-timestamp': ['1', '2'] },
    }),
    of('by the old and the new secret', null, { headers: signed(body, [other, secret]) }),
    of('for either secret', null, { secrets: [other, secret] }),
    of('another body', 'signature_invalid', { body: body.replace('revoked', 'issued') }),
    of('another id', 'signature_invalid', { headers: { ...signed(body), 'webhook-id': 'evt_2' } }),
    of('another time', 'signature_invalid', { headers: { ...signed(body), 'webhook-timestamp': '1' } }),
    of('another secret', 'signature_invalid', { secrets: [other] }),
    of('no secret', 'signature_invalid', { secrets: [] }),
    of('no signature', 'signature_invalid', { headers: { ...signed(body), 'webhook-signature': 'v1,ä' } }),
    of('no id', 'headers_missing', { headers: withoutId }),
    of('no time', 'headers_missing', { headers: { ...signed(body), 'webhook-timestamp': '1e9' } }),
    of('too late', 'too_old', { now_s: nowMs / 1_000 + 300.1 }),
    of('just in time', null, { now_s: nowMs / 1_000 + 300 }),
    of('too early', 'too_new', { now_s: nowMs / 1_000 - 300.1 }),
    ...events.map((text) =>
      of(`no event: ${text.slice(0, 30)}`, 'malformed', { body: text, headers: signed(text) }),
    ),
  ];
}
