import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { archiveCommand } from '../../cli/evidence/archive-attestations.ts';
import { verifyAttestationsCommand } from '../../cli/verify/verify-attestations.ts';
import { verifyAttestations } from '../../clients/node/src/verify.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { until } from '../support/base/until.ts';
import { verifyExport } from '../support/data/independent-verifier.mjs';
import { moveMonths } from '../support/database/record-months.ts';
import { startOwnApi } from '../support/service/api.ts';
import { append, exportText, linesOf, newRecord, ownerOf, verifyText } from '../support/service/exports.ts';
import { useApi } from '../support/service/use-api.ts';

const run = promisify(execFile);
const api = useApi(startOwnApi);
let origin: string;
let owner: Owner;
let gateId: string;
const folder = temporaryFolder();

beforeAll(async () => {
  origin = await api.app.listen({ port: 0, host: '127.0.0.1' });
  owner = await ownerOf(api);
  gateId = (await api.createGate()).gate_id;
});
afterAll(() => folder.remove());

/** `2027-02`, so many months from now. */
async function monthIn(months: number): Promise<string> {
  const [row] = await api.deps.sql<{ month: string }[]>`
    SELECT to_char(date_trunc('month', now() AT TIME ZONE 'UTC') + make_interval(months => ${months}), 'YYYY-MM') AS month`;
  return row?.month ?? '';
}

async function archive(
  before: string,
  { isApplied = true, to = folder.path }: { readonly isApplied?: boolean; readonly to?: string } = {},
) {
  const said: string[] = [];
  const output = { write: (text: string) => void said.push(text) };
  const access = { origin, key: api.adminKey };
  const code = await archiveCommand({ access, before, folder: to, isApplied, output });
  return { code, said: said.join('') };
}

async function verify(...files: string[]) {
  const jwks = join(folder.path, 'jwks.json');
  writeFileSync(jwks, JSON.stringify((await api.call({ url: '/.well-known/jwks.json', key: null })).body));
  const said: string[] = [];
  const output = { write: (text: string) => void said.push(text) };
  const code = await verifyAttestationsCommand({ files, jwks, output, errors: output });
  return { code, said: said.join('') };
}

const records = (passportId: string, count: number) =>
  append(
    api,
    Array.from({ length: count }, () =>
      newRecord(api, { passport: { id: passportId, owner }, gateId, gateOwner: owner }),
    ),
  );
const passport = async (): Promise<string> => (await api.issuePassport()).passport_id;
const recordsIn = (text: string) => linesOf(text).filter((line) => 'signature' in line);
const headersIn = (text: string) => linesOf(text).flatMap((line) => ('chain' in line ? [line.chain] : []));
const partitions = async (): Promise<string[]> =>
  (
    await api.deps.sql<{ name: string }[]>`
      SELECT relid::regclass::text AS name FROM pg_partition_tree('records') WHERE isleaf ORDER BY 1`
  ).map(({ name }) => name);
const fileOf = (before: string) =>
  join(folder.path, `attestations-${owner.accountId}-live-before-${before}.jsonl`);

describe('agent-trust attestations archive', () => {
  let [going, ended]: [string, string] = ['', ''];
  let whole: string;
  let firstBefore: string;

  it('says what would leave, and leaves everything as it is without --apply', async () => {
    [going, ended] = [await passport(), await passport()];
    const other = await api.createAccount();
    const otherGate = (await api.createGate({}, other.key)).gate_id;
    const otherOwner: Owner = { accountId: other.accountId as Owner['accountId'], mode: 'live' };
    await records(going, 3);
    await records(ended, 2);
    await append(api, [newRecord(api, { passport: null, gateId: otherGate, gateOwner: otherOwner })]);
    await moveMonths(api.deps.sql, '1 month');
    await records(going, 2);
    await moveMonths(api.deps.sql, '3 months');
    await records(going, 4);
    whole = await exportText(api);
    firstBefore = await monthIn(2);
    const before = await partitions();
    const { code, said } = await archive(firstBefore, { isApplied: false });
    expect(code).toBe(0);
    expect(said).toContain(`before ${firstBefore}: 8 records`);
    expect(said).toContain(
      `attestations-${owner.accountId}-live-before-${firstBefore}.jsonl: 7 records in 2 chains`,
    );
    expect(said).toContain('Nothing was changed');
    expect(await partitions()).toEqual(before);
    expect(readdirSync(folder.path)).toEqual([]);
  });

  it('refuses a month that is not over for long enough, and what is no month', async () => {
    await expect(archive(await monthIn(4))).rejects.toThrow('cannot be archived yet');
    await expect(archive('2026-13')).rejects.toThrow('before must be a month such as 2026-09.');
    await expect(archive('September')).rejects.toThrow('before must be a month');
  });

  it('writes files that verify, and then drops the partitions; exports go on after them and join', async () => {
    const { code, said } = await archive(firstBefore);
    expect(said).toContain('8 records have left the database');
    expect(code).toBe(0);
    const left = await partitions();
    expect(left).not.toContain('records_before');
    expect(left).toContain(`records_${(await monthIn(3)).replace('-', '_')}`);
    const file = readFileSync(fileOf(firstBefore), 'utf8');
    const rest = await exportText(api);
    expect([...recordsIn(file), ...recordsIn(rest)].map(({ id }) => id).sort()).toEqual(
      recordsIn(whole)
        .map(({ id }) => id)
        .sort(),
    );
    const [headGoing, headEnded] = [going, ended].map((chain) =>
      headersIn(rest).find(({ chain_id }) => chain_id === chain),
    );
    const lastOf = (chain: string) => recordsIn(file).findLast(({ chain_id }) => chain_id === chain).hash;
    expect(headGoing).toMatchObject({
      ...{ archived: { hash: lastOf(going), through_sequence: 5 }, first_sequence: 6, last_sequence: 9 },
      previous_attestation_hash: lastOf(going),
    });
    expect(headEnded).toEqual({
      ...{ archived: { hash: lastOf(ended), through_sequence: 2 }, chain_id: ended, first_sequence: 3 },
      ...{ last_hash: lastOf(ended), last_sequence: 2, previous_attestation_hash: lastOf(ended) },
    });
    expect(linesOf(rest).at(-1)).toEqual({ end: { chains: 2, records: 4 } });
  });

  it('leaves exports that every verifier takes, in both forms, and alone or after the archive', async () => {
    const jwks = (await api.call({ url: '/.well-known/jwks.json', key: null })).body;
    const rest = join(folder.path, 'rest.jsonl');
    writeFileSync(rest, await exportText(api));
    for (const format of ['jsonl', 'json']) {
      const text = await exportText(api, `?format=${format}`);
      expect(await verifyText(api, text)).toMatchObject({ kind: 'valid', records: 4, archived: 2 });
      expect(await verifyAttestations(text, jwks)).toMatchObject({ valid: true, records: 4, chains: 2 });
    }
    expect(verifyExport(readFileSync(rest), jwks)).toEqual({ chains: 2, records: 4 });
    const since = new Date(api.deps.clock.now() - 3_600_000).toISOString();
    expect(await verifyText(api, await exportText(api, `?since=${since}`))).toMatchObject({ kind: 'valid' });

    expect(await verify(rest)).toMatchObject({ code: 0, said: expect.stringContaining('name its file') });
    const joined = await verify(fileOf(firstBefore), rest);
    expect(joined).toMatchObject({
      code: 0,
      said: expect.stringContaining('goes on where the files before'),
    });
    expect(await verify(rest, fileOf(firstBefore))).toMatchObject({ code: 5 });
    // What goes further than the archive did is whole in itself, and does not join.
    const other = join(folder.path, 'other.jsonl');
    writeFileSync(other, whole);
    expect(await verify(other, rest)).toMatchObject({
      code: 5,
      said: expect.stringContaining('does not go on where the files before this one end'),
    });
  });

  it('names the archive where one of its records is asked for', async () => {
    const [archived] = recordsIn(readFileSync(fileOf(firstBefore), 'utf8'));
    const answer = await api.call({ url: `/v1/attestations/${archived.id}` });
    expect(answer).toMatchObject({ status: 404, body: { error: { code: 'attestation_not_found' } } });
    expect(answer.body.error.message).toContain(`before ${firstBefore}`);
  });

  it('lets chains go on from the archived head, up to the next archive, which joins too', async () => {
    await records(ended, 1);
    expect(await verifyText(api, await exportText(api))).toMatchObject({ kind: 'valid', records: 5 });
    await moveMonths(api.deps.sql, '5 months');
    await records(going, 1);
    const before = await monthIn(4);
    expect((await archive(before)).said).toContain('5 records have left the database');
    const rest = join(folder.path, 'rest-2.jsonl');
    writeFileSync(rest, await exportText(api));
    expect(await verify(fileOf(firstBefore), fileOf(before), rest)).toMatchObject({ code: 0 });
    expect(await verify(fileOf(firstBefore), rest)).toMatchObject({ code: 5 });
  });

  it('refuses a chain that is not whole, and drops nothing', async () => {
    const chain = await passport();
    await records(chain, 3);
    await api.deps.sql`
      DELETE FROM records WHERE sequence = 2 AND chain = (SELECT number FROM chains WHERE chain_id = ${chain})`;
    await moveMonths(api.deps.sql, '7 months');
    const before = await partitions();
    await expect(archive(await monthIn(6))).rejects.toThrow('not one whole beginning');
    expect(await partitions()).toEqual(before);
    await api.deps
      .sql`DELETE FROM records WHERE chain = (SELECT number FROM chains WHERE chain_id = ${chain})`;
    await api.deps.sql`DELETE FROM chains WHERE chain_id = ${chain}`;
  });

  it('refuses a file that was changed, and takes one that is there and verifies', async () => {
    const before = await monthIn(6);
    const to = join(folder.path, 'again');
    const plan = await archive(before, { isApplied: false, to });
    expect(plan.said).toContain('records, in records_');
    // As a run that was killed before it began to drop leaves it.
    const query = `before=${before}&account_id=${owner.accountId}&mode=live`;
    const { body } = await api.call({ url: `/v1/sync/archive/export?${query}` });
    const name = `attestations-${owner.accountId}-live-before-${before}.jsonl`;
    await run('mkdir', ['-p', to]);
    writeFileSync(join(to, name), String(body).replace('"PERMIT"', '"BLOCK"'));
    await expect(archive(before, { to })).rejects.toThrow('does not verify, so nothing was dropped');
    writeFileSync(join(to, name), String(body));
    expect((await archive(before, { to })).said).toContain(`${name} is there and verifies`);
    expect(existsSync(join(to, `${name}.part`))).toBe(false);
  });

  it('is not cut short by a second run at the same time', async () => {
    const chain = await passport();
    await records(chain, 5);
    await moveMonths(api.deps.sql, '9 months');
    const before = await monthIn(8);
    const to = join(folder.path, 'twice');
    const both = await Promise.allSettled([archive(before, { to }), archive(before, { to })]);
    expect(both.map(({ status }) => status)).toContain('fulfilled');
    const name = `attestations-${owner.accountId}-live-before-${before}.jsonl`;
    expect(readdirSync(to)).toEqual([name]);
    const text = readFileSync(join(to, name), 'utf8');
    expect(recordsIn(text).filter(({ chain_id: id }) => id === chain)).toHaveLength(5);
    expect((await verify(join(to, name))).code).toBe(0);
    expect(headersIn(await exportText(api)).find(({ chain_id: id }) => id === chain)).toMatchObject({
      archived: { through_sequence: 5 },
    });
  });

  it('goes on after each step, whoever was killed', async () => {
    const { sql } = api.deps;
    const chain = await passport();
    await records(chain, 2);
    await moveMonths(sql, '11 months');
    await records(chain, 1);
    const before = await monthIn(10);
    const step = async () => {
      const body = { before, records: (await planned()) ?? 0, files: 1 };
      return (await api.call({ url: '/v1/sync/archive', body })).body.state;
    };
    const planned = async () => {
      const { body } = await api.call({ url: '/v1/sync/archive/plan', body: { before, after: 0 } });
      return body.owners[0]?.records;
    };
    // Begun, and then marked: another archive waits, and exports verify in between.
    expect(await step()).toBe('marking');
    expect(await verifyText(api, await exportText(api))).toMatchObject({ kind: 'valid' });
    await expect(archive(await monthIn(9))).rejects.toThrow('has begun and is not done');
    expect(await step()).toBe('marking');
    expect(await verifyText(api, await exportText(api))).toMatchObject({ kind: 'valid' });
    // A call that is ended while it waits for a reader leaves a partition half detached.
    const name = `records_${(await monthIn(9)).replace('-', '_')}`;
    const [reader, caller] = [1, 2].map(() => connect({ url: api.databaseUrl, connectionsMax: 1 }));
    let release: () => void = () => undefined;
    let isLocked = false;
    const reading = reader?.begin(async (tx) => {
      await tx`LOCK TABLE records IN ACCESS SHARE MODE`;
      isLocked = true;
      await new Promise<void>((resolve) => {
        release = resolve;
      });
    });
    await until(() => isLocked, { what: 'the reader holds its lock' });
    const detaching = caller?.unsafe(`ALTER TABLE records DETACH PARTITION ${name} CONCURRENTLY`);
    const failed = expect(detaching).rejects.toThrow();
    await until(
      async () => {
        const rows = await sql`SELECT FROM pg_inherits WHERE inhdetachpending`;
        return rows.length > 0;
      },
      { what: 'the partition is half detached' },
    );
    // Of this database alone: other tests archive, too.
    await sql`
      SELECT pg_cancel_backend(pid) FROM pg_stat_activity
      WHERE query LIKE 'ALTER TABLE records DETACH%' AND datname = current_database()
        AND pid <> pg_backend_pid()`;
    await failed;
    release();
    await Promise.all([reading, reader?.end(), caller?.end()]);
    const { said } = await archive(before);
    expect(said).toContain('The archive before');
    expect(said).toContain('records have left the database');
    expect(await partitions()).not.toContain(name);
    expect(await sql`SELECT FROM pg_class WHERE relname = ${name}`).toHaveLength(0);
    expect(await verifyText(api, await exportText(api))).toMatchObject({ kind: 'valid' });
    const { body } = await api.call({ url: '/v1/audit' });
    expect(body.entries.map((each: { target: string }) => each.target)).toContain(`before ${before}`);
  });
});
