import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { verifyAttestationsCommand } from '../../cli/verify/verify-attestations.ts';
import { verifyAttestations } from '../../clients/node/src/verify.ts';
import type { Database } from '../../control-plane/base/database.ts';
import { brokenNamedMax } from '../../shared/attestation/broken-chains.ts';
import type { AttestationRecord } from '../../shared/model/attestation.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { readCsv } from '../support/base/read-csv.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { verifyExport } from '../support/data/independent-verifier.mjs';
import { type Api, startOwnApi } from '../support/service/api.ts';
import { append, exportText, linesOf, liveOwner, newRecord } from '../support/service/exports.ts';
import { pythonEnv, pythons } from './support/python.ts';

/**
 * Somebody who can write to the database, and has no signing key, takes records away or changes them. The
 * export says so, and so does every verifier.
 */
let api: Api;
let jwks: object;
let python: string;
const folder = temporaryFolder();
const run = promisify(execFile);
const hourMs = 3_600_000;

beforeAll(async () => {
  api = await startOwnApi();
  // As whoever has the database could: what the schema itself would refuse is not what is tested.
  const { sql } = api.deps;
  const unique = await sql<{ name: string }[]>`
    SELECT indexname AS name FROM pg_indexes WHERE indexname LIKE 'records_%_in_chain'`;
  for (const { name } of unique) await sql`DROP INDEX ${sql(name)}`;
  await sql`CREATE INDEX records_in_chain ON records (chain, sequence)`;
  jwks = (await api.call({ url: '/.well-known/jwks.json', key: null })).body;
  writeFileSync(join(folder.path, 'jwks.json'), JSON.stringify(jwks));
  [python] = await pythons();
});
afterAll(async () => {
  await api.close();
  folder.remove();
});

interface Chains {
  readonly owner: Owner;
  readonly key: string;
  /** Of 410 records, one an hour: three slices of an export. */
  readonly long: string;
  /** Of three records. */
  readonly short: string;
}

const longRecords = 410;

async function makeChains(): Promise<Chains> {
  const { accountId, key } = await api.createAccount();
  const owner = liveOwner(accountId);
  const gateId = (await api.createGate({}, key)).gate_id;
  const long = (await api.issuePassport({}, key)).passport_id;
  const short = (await api.issuePassport({}, key)).passport_id;
  const startMs = api.deps.clock.now() - 500 * hourMs;
  const recordOf = (id: string, change: Partial<AttestationRecord>) =>
    newRecord(api, { passport: { id, owner }, gateId, gateOwner: owner }, change);
  await append(
    api,
    Array.from({ length: longRecords }, (_, i) =>
      recordOf(long, { timestampMs: (startMs + i * hourMs) as UnixMillis }),
    ),
  );
  await append(
    api,
    Array.from({ length: 3 }, () => recordOf(short, {})),
  );
  return { owner, key, long, short };
}

type Tamper = (sql: Database, chain: string) => Promise<unknown>;
const remove =
  (which: string): Tamper =>
  (sql, chain) =>
    sql.unsafe(
      `DELETE FROM records WHERE chain = (SELECT number FROM chains WHERE chain_id = $1) AND ${which}`,
      [chain],
    );
const change =
  (set: string, sequence: number): Tamper =>
  (sql, chain) =>
    sql.unsafe(
      `UPDATE records SET ${set} WHERE chain = (SELECT number FROM chains WHERE chain_id = $1) AND sequence = ${sequence}`,
      [chain],
    );
const moveHead =
  (set: string): Tamper =>
  (sql, chain) =>
    sql.unsafe(`UPDATE chains SET ${set} WHERE chain_id = $1`, [chain]);

const all = 'sequence > 0';
const somebody = `'sha256:${'0'.repeat(64)}'`;

/**
 * What is done to the long chain, what the end says, and how many of its records are in the file.
 */
const tampers: readonly (readonly [string, Tamper, string, number, number])[] = [
  ['the first record removed', remove('sequence = 1'), 'missing_at_begin', 1, 0],
  ['all records removed', remove(all), 'missing_at_begin', 1, 0],
  ['one of the middle removed', remove('sequence = 100'), 'missing_in_middle', 100, 99],
  ['a slice of the middle removed', remove('sequence BETWEEN 201 AND 400'), 'missing_in_middle', 201, 200],
  ['the last record removed', remove(`sequence = ${longRecords}`), 'missing_at_end', 410, 409],
  ['its head row set back', moveHead('sequence = 409'), 'head_differs', 409, 408],
  [
    'its head row set back with the hash',
    (sql, chain) => sql`
      UPDATE chains SET sequence = 409, hash = (
        SELECT 'sha256:' || encode(previous_hash, 'hex') FROM records WHERE chain = number AND sequence = 410)
      WHERE chain_id = ${chain}`,
    'beyond_head',
    410,
    409,
  ],
  ['its head row set to none', moveHead('sequence = 0, hash = NULL'), 'beyond_head', 1, 0],
  ['no hash in the head row', moveHead('hash = NULL'), 'head_differs', 410, 0],
  [
    'a sequence number given twice',
    // Written later, so that it is read later.
    change('sequence = 150', 151),
    'repeated',
    151,
    150,
  ],
  ['an amount changed', change('amount_micro_usd = 7', 300), 'link_broken', 301, 300],
  ['the last amount changed', change('amount_micro_usd = 7', longRecords), 'head_differs', 410, 409],
  ['a link changed', change("previous_hash = decode(repeat('00', 32), 'hex')", 2), 'link_broken', 2, 1],
  [
    'a head row that is older than all, with a record removed',
    async (sql, chain) => {
      await remove('sequence = 100')(sql, chain);
      await moveHead('latest_ms = -1')(sql, chain);
    },
    'missing_in_middle',
    100,
    99,
  ],
  ['a time that is none', change('timestamp_ms = 9007199254740991', 250), 'unreadable', 250, 249],
];

/** The first tampering of each kind of fault: verifiers read what the end says, not how it came about. */
const firstOfKind = new Set(
  tampers
    .filter(([, , fault], i) => tampers.findIndex((each) => each[2] === fault) === i)
    .map(([name]) => name),
);

/** Where a record was changed, verifiers find its signature wrong first: the service looks at none. */
const changedRecord: Readonly<Record<string, number>> = { 'an amount changed': 300 };

/** The exit code of the command, and what it prints. */
async function command(text: string, name: string): Promise<{ code: number; said: string }> {
  const file = join(folder.path, name);
  writeFileSync(file, text);
  const said: string[] = [];
  const output = { write: (piece: string) => void said.push(piece) };
  const code = await verifyAttestationsCommand({
    files: [file],
    jwks: join(folder.path, 'jwks.json'),
    output,
    errors: output,
  });
  return { code, said: said.join('') };
}

const script = `
import json, sys
from agent_trust.verify import verify_attestations
jwks = json.load(open(sys.argv[1]))
for file in sys.argv[2:]:
    verdict = verify_attestations(open(file, "rb"), jwks)
    print("valid" if verdict else verdict)
`;

/** What Python says of each of these files. */
async function byPython(...names: readonly string[]): Promise<readonly string[]> {
  const files = ['jwks.json', ...names].map((name) => join(folder.path, name));
  const { stdout } = await run(python, ['-c', script, ...files], { env: pythonEnv({}) });
  return stdout.trimEnd().split('\n');
}

/** Every verifier there is, of one file as jsonl and as json. */
async function expectRefused(jsonl: string, json: string, named: { chain: string; sequence: number }) {
  for (const [format, text] of Object.entries({ jsonl, json })) {
    const ours = await command(text, `export.${format}`);
    expect(ours.code, ours.said).toBe(5);
    expect(ours.said).toContain(`chain ${named.chain}, sequence ${named.sequence}`);
    const client = await verifyAttestations(text, jwks);
    expect(client).toMatchObject({ valid: false, chain_id: named.chain, sequence: named.sequence });
  }
  const inPython = expect.stringContaining(named.chain);
  expect(await byPython('export.jsonl', 'export.json')).toEqual([inPython, inPython]);
  expect(() => verifyExport(Buffer.from(jsonl), jwks)).toThrow(named.chain);
}

describe('a chain that is not whole in the database', () => {
  it.each(tampers)(
    '%s: the export says so, and no verifier takes it',
    async (name, tamper, fault, sequence, there) => {
      const { key, long, short } = await makeChains();
      await tamper(api.deps.sql, long);
      // One after the other: an account has two at a time.
      const jsonl = await exportText(api, '', key);
      const json = await exportText(api, '?format=json', key);
      const csv = await exportText(api, '?format=csv', key);
      const { end } = linesOf(jsonl).at(-1);
      const named = { chain_id: long, fault, sequence };
      expect(end).toEqual({ broken: [named], chains: there === 0 ? 1 : 2, records: there + 3 });
      expect(JSON.parse(json).end).toEqual(end);
      // The other chain of the account is there, and whole.
      expect(linesOf(jsonl).filter((line) => line.chain_id === short)).toHaveLength(3);
      const rows = readCsv(csv);
      expect(rows).toHaveLength(there + 3 + 1);
      expect(rows.at(-1)).toMatchObject({ id: '', chain_id: long, sequence: String(sequence) });
      expect(rows.at(-1)?.['reason']).toBe(`broken: ${end.broken[0].fault}`);
      const refused = { chain: long, sequence: changedRecord[name] ?? sequence };
      if (firstOfKind.has(name)) await expectRefused(jsonl, json, refused);
      else expect(await verifyAttestations(jsonl, jwks)).toMatchObject({ valid: false, chain_id: long });
    },
  );

  const sinceOf = async (chain: string, sequence: number): Promise<string> => {
    const [row] = await api.deps.sql<{ at: number }[]>`
      SELECT timestamp_ms AS at FROM records JOIN chains ON number = chain WHERE chain_id = ${chain} AND records.sequence = ${sequence}`;
    return new Date(row?.at ?? 0).toISOString();
  };

  it.each([
    ['the record before the first one', 'sequence = 299', 'missing_in_middle', 299],
    ['all before it', 'sequence < 300', 'missing_at_begin', 1],
    ['all from it on', 'sequence >= 300', 'missing_at_end', 300],
    ['all of them', all, 'missing_at_begin', 1],
  ])('with since, %s is missed too', async (_, which, fault, sequence) => {
    const { key, long } = await makeChains();
    const since = await sinceOf(long, 300);
    const query = (format: string) => `?format=${format}&since=${since}`;
    const before = linesOf(await exportText(api, query('jsonl'), key));
    expect(before.at(-1)).toEqual({ end: { chains: 2, records: 114 } });
    await remove(which)(api.deps.sql, long);
    const [jsonl, json] = [
      await exportText(api, query('jsonl'), key),
      await exportText(api, query('json'), key),
    ];
    expect(linesOf(jsonl).at(-1).end.broken).toEqual([{ chain_id: long, fault, sequence }]);
    await expectRefused(jsonl, json, { chain: long, sequence });
  });

  it('is named in the export of its own mode and account only', async () => {
    const [mine, other] = [await makeChains(), await makeChains()];
    await remove('sequence = 1')(api.deps.sql, mine.long);
    const testKey = (await api.createKey({ scopes: ['admin:*'], mode: 'test' }, mine.key)).key;
    for (const key of [other.key, testKey]) {
      expect(linesOf(await exportText(api, '', key)).at(-1).end).not.toHaveProperty('broken');
    }
  });

  it('is not what a chain is that was begun and has no record, or that grows meanwhile', async () => {
    const { owner, key, long, short } = await makeChains();
    const begun = short.replace(/.$/, (last) => (last === '0' ? '1' : '0'));
    await api.deps.sql`
      INSERT INTO chains (chain_id, account_id, mode, sequence) VALUES (${begun}, ${owner.accountId}, 'live', 0)`;
    let isOver = false;
    const growing = (async () => {
      while (!isOver) {
        const about = { passport: { id: long, owner }, gateId: null, gateOwner: owner };
        await append(api, [newRecord(api, about)]);
      }
    })();
    for (let i = 0; i < 10; i++) {
      expect(await verifyAttestations(await exportText(api, '', key), jwks)).toMatchObject({ valid: true });
    }
    isOver = true;
    await growing;
  });

  it('is one of many: a thousand are named, the others counted', async () => {
    const { accountId, key } = await api.createAccount();
    const ids = Array.from({ length: brokenNamedMax + 5 }, () =>
      api.deps.random.newId('gate', api.deps.clock.now()),
    );
    await api.deps.sql`
      INSERT INTO chains (chain_id, account_id, mode, sequence, hash)
      SELECT id, ${accountId}, 'live', 1, ${`sha256:${'0'.repeat(64)}`} FROM unnest(${ids}::text[]) AS made (id)`;
    const jsonl = await exportText(api, '', key);
    const { end } = linesOf(jsonl).at(-1);
    expect(end.broken.map((each: { chain_id: string }) => each.chain_id)).toEqual(ids.sort().slice(0, -5));
    expect(end).toMatchObject({ broken_unnamed: 5, chains: 0, records: 0 });
    await expectRefused(jsonl, await exportText(api, '?format=json', key), {
      chain: ids[0] ?? '',
      sequence: 1,
    });
    expect((await command(jsonl, 'many.jsonl')).said).toContain('Also 5 chains');
    expect(readCsv(await exportText(api, '?format=csv', key)).at(-1)?.['reason']).toBe(
      'broken: 5 more chains',
    );
  });

  it('is refused as well if it is cut out of the file', async () => {
    const { key, long } = await makeChains();
    await remove('sequence = 100')(api.deps.sql, long);
    const lines = (await exportText(api, '', key)).trimEnd().split('\n');
    const { end } = JSON.parse(lines.at(-1) ?? '');
    const text = [...lines.slice(0, -1), JSON.stringify({ end: { ...end, broken: undefined } })].join('\n');
    expect(await verifyAttestations(`${text}\n`, jwks)).toMatchObject({ valid: false });
    expect((await command(`${text}\n`, 'cut.jsonl')).said).toContain(`chain ${long}, sequence 100`);
    expect((await command(`${text}\n`, 'cut.jsonl')).code).toBe(5);
    expect(await byPython('cut.jsonl')).not.toEqual(['valid']);
    expect(() => verifyExport(Buffer.from(`${text}\n`), jwks)).toThrow();
  });
});

describe('the audit chain', () => {
  /** More than a slice of an export. */
  const entries = 110;
  const auditOf = (key: string, query = '') =>
    api.call({ url: `/v1/audit/export${query}`, key }).then((reply) => String(reply.body));

  async function makeAudit(): Promise<{ accountId: string; key: string }> {
    const { accountId, key } = await api.createAccount();
    await Promise.all(Array.from({ length: entries }, () => api.createIssuer({}, key)));
    return { accountId, key };
  }
  const remove = (which: string) => `DELETE FROM audit_entries WHERE account_id = $1 AND ${which}`;
  const change = (set: string, sequence: number) =>
    `UPDATE audit_entries SET ${set} WHERE account_id = $1 AND sequence = ${sequence}`;
  const moveHead = (set: string) => `UPDATE audit_chains SET ${set} WHERE account_id = $1`;

  it.each([
    ['the first entries removed', remove('sequence < 5'), 'missing_at_begin', 1],
    ['one of the middle removed', remove('sequence = 105'), 'missing_in_middle', 105],
    ['the last one removed', remove('sequence = 110'), 'missing_at_end', 110],
    ['the head row set back', moveHead('sequence = 109'), 'head_differs', 109],
    ['the head row removed', 'DELETE FROM audit_chains WHERE account_id = $1', 'beyond_head', 1],
    ['another link', change(`previous_hash = ${somebody}`, 7), 'link_broken', 7],
    ['a state that cannot be written', change(`after = '"\\ud800"'`, 7), 'unreadable', 7],
  ])('%s: the export says so, and the command refuses it', async (_, tamper, fault, sequence) => {
    const { accountId, key } = await makeAudit();
    expect((await command(await auditOf(key), 'audit.jsonl')).code).toBe(0);
    await api.deps.sql.unsafe(tamper, [accountId]);
    const text = await auditOf(key);
    expect(linesOf(text).at(-1).end.broken).toEqual([{ chain_id: accountId, fault, sequence }]);
    const { code, said } = await command(text, 'audit.jsonl');
    expect(code, said).toBe(5);
    expect(said).toContain(`chain ${accountId}, sequence ${sequence}`);
  });

  it.each([
    ['the entry before the first one', 'sequence = 99', 'missing_in_middle', 99],
    ['all from the first one on', 'sequence >= 100', 'missing_at_end', 100],
  ])('with since, %s is missed too', async (_, which, fault, sequence) => {
    const { accountId, key } = await makeAudit();
    await api.deps
      .sql`UPDATE audit_entries SET created_at_ms = created_at_ms - 1000000 WHERE account_id = ${accountId} AND sequence < 100`;
    const since = new Date(api.deps.clock.now() - 500_000).toISOString();
    await api.deps.sql.unsafe(remove(which), [accountId]);
    const text = await auditOf(key, `?since=${since}`);
    expect(linesOf(text).at(-1).end.broken).toEqual([{ chain_id: accountId, fault, sequence }]);
    expect((await command(text, 'audit.jsonl')).code).toBe(5);
  });

  it('goes on from its head row, so that the cut-off records stay missing', async () => {
    const { accountId, key } = await makeAudit();
    await api.deps.sql.unsafe(remove('sequence > 108'), [accountId]);
    await api.createIssuer({}, key);
    const text = await auditOf(key);
    expect(linesOf(text).at(-1).end.broken).toEqual([
      { chain_id: accountId, fault: 'missing_in_middle', sequence: 109 },
    ]);
    expect((await command(text, 'audit.jsonl')).code).toBe(5);
  });
});
