import { beforeAll, describe, expect, it } from 'vitest';
import { trimFacts } from '../../control-plane/attestations/facts-store.ts';
import { noCarried } from '../../shared/model/attestation.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { dayMs } from '../../shared/model/time.ts';
import { type FactOwner, openingOf, type ShippedFact } from '../../shared/wire/evidence/fact.ts';
import type { SpooledRecord } from '../../shared/wire/sync/sync.ts';
import { verifyExport } from '../support/data/independent-verifier.mjs';
import { moveMonths } from '../support/database/record-months.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { append, exportText, linesOf, newRecord, ownerOf, verifyText } from '../support/service/exports.ts';
import { connectSidecar, expectSoundStore, recordOf } from '../support/service/test-sidecar.ts';
import { useApi } from '../support/service/use-api.ts';

/** What opens commitments of records: stored, answered, exported, verified and removed (docs/facts.md). */
const api = useApi(startOwnApi);
let owner: Owner;
let gateId: string;
let other: { readonly key: string; readonly owner: Owner; readonly passportId: string };

beforeAll(async () => {
  owner = await ownerOf(api);
  gateId = (await api.createGate()).gate_id;
  const { key } = await api.createAccount();
  const { passport_id: passportId } = await api.issuePassport({}, key);
  other = { key, passportId, owner: await ownerOf(api, key) };
});

const salt = (n: number): string => Buffer.alloc(16, n).toString('base64url');
const values: readonly (readonly [path: string, value: unknown])[] = [
  ['/request/rows', 100],
  ['/request/note', undefined],
  ['/request/body', { text: 'ä"\\', more: [1.5, null] }],
  ['/claims/team', 'x'.repeat(2_000)],
];
const made = values.map(([path, value], n) => ({ path, ...openingOf(path, salt(n), value) }));
const commitments = made.map(({ path, commitment }) => ({ commitment, path }));
const ofOwner = (of: FactOwner): ShippedFact[] =>
  made.map(({ opening }) => (of === 'gate' ? opening : { ...opening, of }));

/** As the control plane stores it. */
async function stored(facts: readonly ShippedFact[], passport = other.passportId, by = other.owner) {
  const about = { passport: { id: passport, owner: by }, gateId, gateOwner: owner };
  const carried = { ...noCarried, facts: commitments };
  const plain = newRecord(api, about, { policyHash: null, asserted: false, carried });
  await append(api, [{ ...plain, facts }]);
  return plain.record.id;
}
const factsOf = (id: string, key = api.adminKey) => api.call({ url: `/v1/attestations/${id}/facts`, key });
const pathsOf = ({ body }: Reply) => body.facts.map(({ path }: { path: string }) => path);
const paths = values.map(([path]) => path);
const rows = async (): Promise<number> =>
  Number((await api.deps.sql`SELECT count(*) AS count FROM attestation_facts`)[0]?.['count']);

describe('GET /attestations/:id/facts', () => {
  it('answers what opens each commitment', async () => {
    const id = await stored(ofOwner('gate'));
    const { status, body } = await factsOf(id);
    expect(status).toBe(200);
    expect(body).toEqual({
      attestation_id: id,
      facts: [
        { ...commitments[0], salt: salt(0), value: 100 },
        { ...commitments[1], salt: salt(1), value: null, absent: true },
        { ...commitments[2], salt: salt(2), value: values[2]?.[1] },
        {
          ...{ ...commitments[3], salt: salt(3), hashed: true },
          value: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
        },
      ],
    });
  });

  it('answers each account its own', async () => {
    const mixed = [
      ...ofOwner('gate').slice(0, 1),
      ...ofOwner('passport').slice(1, 2),
      ...ofOwner('both').slice(2, 3),
    ];
    const id = await stored(mixed);
    expect(pathsOf(await factsOf(id))).toEqual([paths[0], paths[2]]);
    expect(pathsOf(await factsOf(id, other.key))).toEqual([paths[1], paths[2]]);
    const { key } = await api.createAccount();
    expectError(await factsOf(id, key), 'attestation_not_found');
    const own = await api.issuePassport();
    const ofOne = await stored(mixed, own.passport_id, owner);
    expect(pathsOf(await factsOf(ofOne))).toEqual(paths.slice(0, 3));
  });

  it('is in the audit, and answers nothing where nothing was kept', async () => {
    const id = await stored([]);
    expect((await factsOf(id)).body).toEqual({ attestation_id: id, facts: [] });
    const { body } = await api.call({ url: '/v1/audit?operation=getAttestationFacts' });
    expect(body.entries[0]).toMatchObject({ target: id, before: null, after: { facts: 0 } });
  });
});

describe('a batch of a sidecar', () => {
  const shipped = async (change: Partial<SpooledRecord> = {}) => {
    const passport = await api.issuePassport();
    const extras = { facts: commitments, fact_values: ofOwner('gate') };
    const form2 = { policy_hash: null, trust_level: null, wallet_path: null, state_age_ms: null };
    return recordOf(api, { gateId, passport }, { ...form2, extras, ...change });
  };
  const form = { form: 2, facts: true } as const;

  it('stores them once, however often it is sent', async () => {
    const sidecar = await connectSidecar(api);
    const record = await shipped();
    const before = await rows();
    for (let time = 0; time < 3; time++)
      expect((await sidecar.send(1, [record], form)).body).toMatchObject({ next_seq: 2 });
    expect(await rows()).toBe(before + 1);
    expect(pathsOf(await factsOf(record.id))).toEqual(paths);
    await expectSoundStore(api);
  });

  it.each<[string, readonly unknown[]]>([
    ['a value that does not open its commitment', [{ ...made[0]?.opening, value: 101 }]],
    ['a value of another record', [openingOf('/request/more', salt(9), 1).opening]],
    ['a value above 1 KiB', [{ path: '/claims/team', salt: salt(3), value: 'x'.repeat(2_000) }]],
    ['too many', Array.from({ length: 40 }, () => made[0]?.opening)],
  ])('is refused with %s, and leaves nothing', async (_, fact_values) => {
    const sidecar = await connectSidecar(api);
    const before = await rows();
    const record = await shipped({ extras: { facts: commitments, fact_values: fact_values as never } });
    const reply = await sidecar.send(1, [record], form);
    expect(reply).toMatchObject({
      ...{ status: 400 },
      body: { error: { code: 'record_refused', refused: [{ seq: 1, message: 'extras is not valid' }] } },
    });
    expect(await rows()).toBe(before);
    expectError(await factsOf(record.id), 'attestation_not_found');
  });
});

describe('an export', () => {
  it('has them after their record where it is asked, and verifiers open each', async () => {
    const id = await stored(ofOwner('both'));
    const jwks = (await api.call({ url: '/.well-known/jwks.json', key: null })).body;
    for (const key of [api.adminKey, other.key]) {
      const text = await exportText(api, '?facts=1', key);
      const lines = linesOf(text);
      const place = lines.findIndex((line) => line.id === id);
      // The operator is the reader by its gate, and the record stands in the chain of the passport.
      expect(place >= 0).toBe(key === other.key);
      if (key === other.key) expect(lines[place + 1]).toEqual((await factsOf(id, key)).body);
      const count = lines.flatMap((line) => (line.attestation_id ? line.facts : [])).length;
      expect(await verifyText(api, text)).toMatchObject({ kind: 'valid', facts_opened: count });
      expect(verifyExport(Buffer.from(text), jwks)).toMatchObject({ chains: expect.any(Number) });
      const json = await exportText(api, '?facts=1&format=json', key);
      expect(await verifyText(api, json)).toMatchObject({ kind: 'valid', facts_opened: count });
      const without = await exportText(api, '', key);
      expect(without).not.toContain('"salt"');
      expect(await verifyText(api, without)).toMatchObject({ kind: 'valid', facts_opened: 0 });
    }
    const { body } = await api.call({ url: '/v1/audit?operation=getAttestationFacts' });
    expect(body.entries[0]).toMatchObject({ target: owner.accountId, after: { exported: 'json' } });
  });

  it('does not verify with a fact that is changed, moved, or there twice', async () => {
    await stored(ofOwner('both'));
    const text = await exportText(api, '?facts=1', other.key);
    const lines = text.trimEnd().split('\n');
    const place = lines.findLastIndex((line) => line.startsWith('{"attestation_id"'));
    const line = lines[place] ?? '';
    const verdict = async (changed: readonly string[]) => verifyText(api, `${changed.join('\n')}\n`);
    const changed = line.replace('"value":100', '"value":101');
    expect(await verdict(lines.with(place, changed))).toMatchObject({ fault: 'fact_mismatch' });
    expect(await verdict(lines.toSpliced(place, 0, line))).toMatchObject({ fault: 'fact_unnamed' });
    const moved = lines.toSpliced(place, 1).toSpliced(place - 1, 0, line);
    expect(await verdict(moved)).toMatchObject({ fault: 'facts_misplaced' });
    expect(await verdict(lines.with(place, `${line} `))).toMatchObject({ fault: 'not_canonical' });
    const taken = lines.toSpliced(place, 1);
    expect(await verdict(taken)).toMatchObject({ kind: 'valid', facts_withheld: expect.any(Number) });
  });

  it('has them in jsonl and json alone', async () => {
    const reply = await api.call({ url: '/v1/attestations/export?facts=1&format=csv' });
    expectError(reply, 'invalid_request', 'facts');
  });
});

describe('how long', () => {
  it('an account keeps them is its own matter', async () => {
    const [id, mine] = [await stored(ofOwner('passport')), await stored(ofOwner('gate'))];
    const url = '/v1/attestations/retention';
    const set = (body: object) => api.call({ method: 'PUT', url, key: other.key, body });
    expect((await set({ days: 400, facts_days: 30 })).body).toMatchObject({ days: 400, facts_days: 30 });
    expect((await set({ days: null })).body).toMatchObject({ days: null, facts_days: 30 });
    const nowMs = api.deps.clock.now();
    await trimFacts(api.deps.sql, (nowMs + 29 * dayMs) as never);
    expect(pathsOf(await factsOf(id, other.key))).toEqual(paths);
    await trimFacts(api.deps.sql, (nowMs + 31 * dayMs) as never);
    expect(pathsOf(await factsOf(id, other.key))).toEqual([]);
    expect(pathsOf(await factsOf(mine))).toEqual(paths);
    expect((await set({ days: null, facts_days: null })).body).toMatchObject({ facts_days: null });
  });

  it('they are found in the month after, whose partition is their own', async () => {
    await moveMonths(api.deps.sql, '40 days');
    await api.deps.sql`SELECT make_record_partitions()`;
    const id = await stored(ofOwner('gate'));
    expect(pathsOf(await factsOf(id))).toEqual(paths);
    const tables = await api.deps.sql`
      SELECT DISTINCT tableoid::regclass::text AS name FROM attestation_facts`;
    expect(tables.count).toBe(2);
  });
});
