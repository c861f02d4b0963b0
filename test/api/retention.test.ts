import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { archiveCommand } from '../../cli/evidence/archive-attestations.ts';
import { archiveDueCommand } from '../../cli/evidence/archive-due.ts';
import { verifyAttestationsCommand } from '../../cli/verify/verify-attestations.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { moveMonths } from '../support/database/record-months.ts';
import { startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { append, exportText, linesOf, liveOwner, newRecord, verifyText } from '../support/service/exports.ts';
import { useApi } from '../support/service/use-api.ts';

/** How long an account keeps records in the database, and the archives that go by it (contract §9). */
const api = useApi(startOwnApi);
let origin: string;
const folder = temporaryFolder();
beforeAll(async () => {
  origin = await api.app.listen({ port: 0, host: '127.0.0.1' });
});
afterAll(() => folder.remove());

type Account = Awaited<ReturnType<typeof newAccount>>;
async function newAccount() {
  const { key, accountId } = await api.createAccount();
  const { gate_id } = await api.createGate({}, key);
  const { passport_id } = await api.issuePassport({}, key);
  return { owner: liveOwner(accountId), key, gateId: gate_id, passportId: passport_id };
}
const records = ({ owner, passportId }: Account, count: number, gate: Account) =>
  append(
    api,
    Array.from({ length: count }, () =>
      newRecord(api, { passport: { id: passportId, owner }, gateId: gate.gateId, gateOwner: gate.owner }),
    ),
  );
const retention = (key: string, days?: unknown) => {
  const url = '/v1/attestations/retention';
  return api.call(days === undefined ? { url, key } : { method: 'PUT', url, key, body: { days } });
};
const listed = async (key: string) => (await api.call({ url: '/v1/attestations?limit=500', key })).body;

async function command(isApplied = true) {
  const said: string[] = [];
  const output = { write: (text: string) => void said.push(text) };
  const access = { origin, key: api.adminKey };
  const code = await archiveDueCommand({ access, folder: folder.path, isApplied, output });
  return { code, said: said.join('') };
}
async function verify(...files: string[]) {
  const jwks = join(folder.path, 'jwks.json');
  writeFileSync(jwks, JSON.stringify((await api.call({ url: '/.well-known/jwks.json', key: null })).body));
  const said: string[] = [];
  const output = { write: (text: string) => void said.push(text) };
  return {
    code: await verifyAttestationsCommand({ files, jwks, output, errors: output }),
    said: said.join(''),
  };
}
const archivesOf = ({ owner }: Account) =>
  readdirSync(folder.path)
    .filter((name) => name.includes(owner.accountId) && name.endsWith('.jsonl'))
    .sort()
    .map((name) => join(folder.path, name));
const recordsIn = (text: string) => linesOf(text).filter((line) => 'signature' in line);
const exportFile = async (name: string, { key }: Account) => {
  const path = join(folder.path, name);
  writeFileSync(path, await exportText(api, '', key));
  return path;
};
async function monthIn(months: number): Promise<string> {
  const [row] = await api.deps.sql<{ month: string }[]>`
    SELECT to_char(date_trunc('month', now() AT TIME ZONE 'UTC') + make_interval(months => ${months}), 'YYYY-MM') AS month`;
  return row?.month ?? '';
}

it('PUT /attestations/retention is null until the account says so, is bounded, and is on record', async () => {
  const { key, owner } = await newAccount();
  expect((await retention(key)).body).toEqual({ days: null, facts_days: null, archived_before: null });
  for (const days of [29, 3_651, 1.5, '40'])
    expectError(await retention(key, days), 'invalid_request', 'days');
  expect((await retention(key, 30)).body).toEqual({ days: 30, facts_days: null, archived_before: null });
  expect((await retention(key)).body.days).toBe(30);
  expect((await retention(key, null)).body.days).toBe(null);
  const { entries } = (await api.call({ url: '/v1/audit?operation=setRetention', key })).body;
  expect(entries).toMatchObject([
    { target: owner.accountId, before: { days: 30 }, after: { days: null } },
    { before: { days: null }, after: { days: 30 } },
  ]);
});

describe('agent-trust attestations archive --due', () => {
  let keeps: Account;
  let other: Account;
  let whole: string;
  let firstBefore: string;

  it('does nothing for accounts that say nothing, and nothing without --apply', async () => {
    [keeps, other] = [await newAccount(), await newAccount()];
    await records(keeps, 5, keeps);
    await records(keeps, 2, other);
    await records(keeps, 3, keeps);
    await records(other, 4, other);
    await moveMonths(api.deps.sql, '4 months');
    await records(keeps, 2, keeps);
    await records(other, 1, other);
    whole = await exportText(api, '', keeps.key);
    expect((await command()).said).toMatch(/No account has records/);
    await retention(keeps.key, 60);
    const { said } = await command(false);
    expect(said).toMatch(/: 10 records in 1 chains\n.*Nothing was changed/s);
    expect(await exportText(api, '', keeps.key)).toHaveLength(whole.length);
    expect(archivesOf(keeps)).toEqual([]);
  });

  it('removes what the file holds, and leaves other accounts and what they may read', async () => {
    const untouched = recordsIn(await exportText(api, '', other.key));
    const { code, said } = await command();
    expect(said).toMatch(/8 records have left the database; 2 stay in lists/);
    expect(code).toBe(0);
    const [file = ''] = archivesOf(keeps);
    const rest = await exportText(api, '', keeps.key);
    const both = [...recordsIn(readFileSync(file, 'utf8')), ...recordsIn(rest)];
    expect(both.map(({ id }) => id)).toEqual(recordsIn(whole).map(({ id }) => id));
    expect(recordsIn(await exportText(api, '', other.key))).toEqual(untouched);
    const list = await listed(keeps.key);
    expect(list.attestations).toHaveLength(4);
    expect((await listed(other.key)).attestations).toHaveLength(7);
    expect((await listed(other.key)).archived_before).toBe(null);
    firstBefore = list.archived_before;
    expect(Date.parse(firstBefore)).toBeGreaterThan(0);
    expect((await retention(keeps.key)).body).toMatchObject({ days: 60, archived_before: firstBefore });
    const { entries } = (await api.call({ url: '/v1/audit', key: keeps.key })).body;
    expect(entries[0]).toMatchObject({
      ...{ operation: 'archiveAttestations', target: `before ${firstBefore.slice(0, 7)}` },
      after: { records: 10 },
    });
  });

  it('leaves exports that verify alone and after the archive, and names it for a record that left', async () => {
    const text = await exportText(api, '', keeps.key);
    expect(await verifyText(api, text)).toMatchObject({ kind: 'valid', records: 2, archived: 1 });
    const rest = await exportFile('rest.jsonl', keeps);
    expect(await verify(...archivesOf(keeps), rest)).toMatchObject({ code: 0 });
    const [gone] = recordsIn(whole);
    const answer = await api.call({ url: `/v1/attestations/${gone.id}`, key: keeps.key });
    expectError(answer, 'attestation_not_found');
    expect(answer.body.error.message).toContain('are in archives');
  });

  it('has nothing to do again, and takes the next months to a file that joins', async () => {
    expect((await command()).said).toMatch(/No account has records/);
    await moveMonths(api.deps.sql, '8 months');
    await records(keeps, 1, keeps);
    expect((await command()).said).toMatch(/2 records have left the database\n/);
    const rest = await exportFile('rest-2.jsonl', keeps);
    expect(archivesOf(keeps)).toHaveLength(2);
    expect(await verify(...archivesOf(keeps), rest)).toMatchObject({ code: 0 });
  });

  it('ends a walk that it overtakes', async () => {
    await records(keeps, 6, keeps);
    const page = (await api.call({ url: '/v1/attestations?limit=2', key: keeps.key })).body;
    await moveMonths(api.deps.sql, '12 months');
    expect((await command()).said).toMatch(/7 records have left/);
    const url = `/v1/attestations?limit=2&cursor=${page.next_cursor}`;
    const next = await api.call({ url, key: keeps.key });
    expect(next).toMatchObject({ status: 200, body: { attestations: [], next_cursor: null } });
    const forged = await api.call({ url: '/v1/attestations?limit=2&cursor=abc', key: keeps.key });
    expectError(forged, 'invalid_request', 'cursor');
  });

  it('goes on after each step, whoever was killed', async () => {
    const account = await newAccount();
    await records(account, 3, account);
    await moveMonths(api.deps.sql, '16 months');
    await retention(account.key, 30);
    const before = await monthIn(15);
    const asked = { account_id: account.owner.accountId, mode: 'live', before, records: 3 };
    const step = async (body: object = asked) =>
      api.call({ method: 'POST', url: '/v1/sync/archive/account', body });
    // Somebody else's archive is not begun beside it.
    expect((await step()).body).toEqual({ state: 'marking', marked: 0, removed: 0 });
    const earlier = await step({ ...asked, before: await monthIn(14) });
    expectError(earlier, 'precondition_failed');
    const all = {
      access: { origin, key: api.adminKey },
      before,
      folder: join(folder.path, 'all'),
      isApplied: true,
    };
    await expect(archiveCommand({ ...all, output: { write: () => undefined } })).rejects.toThrow('has begun');
    expect(await verifyText(api, await exportText(api, '', account.key))).toMatchObject({ kind: 'valid' });
    expect((await step()).body).toEqual({ state: 'marking', marked: 3, removed: 0 });
    expect(await verifyText(api, await exportText(api, '', account.key))).toMatchObject({ kind: 'valid' });
    // What has begun is ended, though the account keeps records for longer by now.
    await retention(account.key, 3_650);
    expect((await command()).said).toMatch(/has begun: its file is verified.*3 records have left/s);
    expect((await listed(account.key)).attestations).toEqual([]);
  });

  it('does not begin for records that the account keeps', async () => {
    const account = await newAccount();
    await records(account, 1, account);
    await moveMonths(api.deps.sql, '20 months');
    await retention(account.key, 3_650);
    const asked = {
      account_id: account.owner.accountId,
      mode: 'live',
      before: await monthIn(19),
      records: 1,
    };
    expectError(
      await api.call({ method: 'POST', url: '/v1/sync/archive/account', body: asked }),
      'precondition_failed',
    );
    expect((await listed(account.key)).attestations).toHaveLength(1);
  });

  it('leaves what the operator archives after it: files of both join, and nothing is counted twice', async () => {
    const before = await monthIn(19);
    const said: string[] = [];
    const output = { write: (text: string) => void said.push(text) };
    const to = join(folder.path, 'operator');
    const access = { origin, key: api.adminKey };
    await archiveCommand({ access, before, folder: to, isApplied: true, output });
    expect(said.join('')).toMatch(/records have left the database/);
    const ofOther = join(to, `attestations-${other.owner.accountId}-live-before-${before}.jsonl`);
    const rest = await exportFile('other-rest.jsonl', other);
    expect(await verify(ofOther, rest)).toMatchObject({ code: 0 });
    const ofKeeps = await exportFile('keeps-rest.jsonl', keeps);
    expect(await verify(...archivesOf(keeps), ofKeeps)).toMatchObject({ code: 0 });
    // The rows that stayed for the other account went with their month.
    expect((await listed(other.key)).attestations).toEqual([]);
  });
});
