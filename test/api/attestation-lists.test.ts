import { beforeAll, describe, expect, it } from 'vitest';
import { addUnsignedRecords } from '../../bench/harness/unsigned-records.ts';
import { idOfUuid } from '../../control-plane/attestations/id-uuid.ts';
import {
  type AttestationFilter,
  everything,
  findPlace,
  listAttestations,
  numbersAsked,
  pageQuery,
  passportsWalked,
} from '../../control-plane/attestations/list-attestations.ts';
import { must } from '../../shared/errors/assert.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { startOwnApi } from '../support/service/api.ts';
import { append, liveOwner, newRecord, ownerOf } from '../support/service/exports.ts';
import { useApi } from '../support/service/use-api.ts';

/**
 * How much of the database a page reads, whatever is asked for: counted in blocks of 8 KB, because a time
 * says more about the machine. Each of these lists has few or no records among many that a careless plan
 * would look through.
 */
const api = useApi(startOwnApi);
let owner: Owner;
let other: Owner;
let busyPassports: string[];
let busyGates: string[];
let lonelyGate: string;
let othersPassport: string;
let othersGate: string;
const agentOfOne = 'agent-of-one';
/** More passports than a list walks along one by one. */
const agentOfTen = 'agent-of-ten';
const startMs = Date.parse('2026-01-01T00:00:00Z');
const records = 40_000;
const limit = 50;

/** Six walks of a page each, every record in a block of its own, and the way down the indexes. */
const blocksMax = 6 * (limit + 1) + 60;
/** Of each record on the page also its chain and its passport, where it has to be of a certain agent. */
const blocksOfAgentMax = blocksMax + 3 * (limit + 1);

beforeAll(async () => {
  owner = await ownerOf(api);
  const account = await api.createAccount();
  other = liveOwner(account.accountId);
  const ids = async (make: () => Promise<{ readonly passport_id?: string; readonly gate_id?: string }>) => {
    const made = await make();
    return must(made.passport_id ?? made.gate_id, 'the answer has an id');
  };
  busyGates = [await ids(() => api.createGate()), await ids(() => api.createGate())];
  lonelyGate = await ids(() => api.createGate());
  othersPassport = await ids(() => api.issuePassport({}, account.key));
  othersGate = await ids(() => api.createGate({}, account.key));
  busyPassports = [await ids(() => api.issuePassport({ agent_id: agentOfOne })), await lastOfTen(agentOfTen)];
  const half = records / 2;
  for (const from of [0, half]) {
    await addUnsignedRecords(api.deps.sql, {
      ...{ owner, passportIds: busyPassports, gateIds: busyGates, from, count: half, startMs },
    });
  }
  const meeting = (passport: string, passportOwner: Owner, gateId: string, gateOwner: Owner) =>
    newRecord(api, { passport: { id: passport, owner: passportOwner }, gateId, gateOwner });
  await append(api, [
    meeting(busyPassports[0] ?? '', owner, lonelyGate, owner),
    meeting(busyPassports[0] ?? '', owner, othersGate, other),
    meeting(othersPassport, other, busyGates[0] ?? '', owner),
  ]);
  await api.deps.sql`ANALYZE records`;
});

async function lastOfTen(agent_id: string): Promise<string> {
  for (let i = 1; ; i += 1) {
    const { passport_id } = await api.issuePassport({ agent_id });
    if (i === 10) return passport_id;
    await api.call({ method: 'POST', url: `/v1/passports/${passport_id}/revoke`, body: {} });
  }
}

interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Shared Hit Blocks': number;
  readonly 'Shared Read Blocks': number;
}

async function blocksRead(who: Owner, filter: Partial<AttestationFilter>, after: string | null = null) {
  const { sql } = api.deps;
  const place = after === null ? null : await findPlace(sql, who, after as Parameters<typeof findPlace>[2]);
  const passportIds = await passportsWalked(sql, who, { ...everything, ...filter });
  const asked = { ...everything, ...filter, passportIds, limit: limit + 1, after: place };
  const query = pageQuery(sql, who, asked, await numbersAsked(sql, who, asked));
  const [row] = await sql<{ 'QUERY PLAN': readonly { readonly Plan: PlanNode }[] }[]>`
    EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${query}`;
  const plan = must(row?.['QUERY PLAN'][0], 'EXPLAIN answers a plan').Plan;
  return plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];
}

const found = async (who: Owner, filter: Partial<AttestationFilter>): Promise<number> =>
  (await listAttestations(api.deps.sql, who, { ...everything, ...filter }, { limit, after: null }))
    .attestations.length;

describe('a page of attestations', () => {
  const atMs = (offset: number) => (startMs + offset) as UnixMillis;
  type Filter = () => Partial<AttestationFilter>;
  const busy = (place: 0 | 1) => ({ passportId: busyPassports[place] ?? '' });
  const lists: readonly [name: string, length: number, whose: 'owner' | 'other', filter: Filter][] = [
    ['all of an account', limit, 'owner', () => ({})],
    ['a rare decision', 4, 'owner', () => ({ decision: 'SUSPEND' })],
    ['a few, long ago', 20, 'owner', () => ({ untilMs: atMs(20) })],
    ['a decision long ago', 2, 'owner', () => ({ decision: 'BLOCK', untilMs: atMs(20) })],
    ['a busy passport', limit, 'owner', () => ({ ...busy(0) })],
    ['a gate hardly used', 1, 'owner', () => ({ gateId: lonelyGate })],
    ['a busy passport at a gate hardly used', 1, 'owner', () => ({ ...busy(0), gateId: lonelyGate })],
    [
      'a busy passport that was never at a gate of others',
      0,
      'owner',
      () => ({ ...busy(1), gateId: othersGate }),
    ],
    ['a decision of a busy passport', 4, 'owner', () => ({ ...busy(1), decision: 'SUSPEND' })],
    ["somebody else's passport at one's own gates", 1, 'owner', () => ({ passportId: othersPassport })],
    ["one's own passports at somebody else's gate", 1, 'owner', () => ({ gateId: othersGate })],
    ["somebody else's busy passport", 1, 'other', () => ({ ...busy(0) })],
    ["somebody else's busy gate", 1, 'other', () => ({ gateId: busyGates[0] ?? '' })],
    ['an account with little among many with much', 2, 'other', () => ({})],
    ['an agent', limit, 'owner', () => ({ agentId: agentOfOne })],
    ['an agent at a gate hardly used', 1, 'owner', () => ({ agentId: agentOfOne, gateId: lonelyGate })],
    ['an agent with many passports', limit, 'owner', () => ({ agentId: agentOfTen })],
    [
      'a common permission key of an agent',
      limit,
      'owner',
      () => ({ agentId: agentOfOne, permissionKey: 'orders:create' }),
    ],
  ];

  it.each(lists)('reads no more than it needs: %s', async (_name, length, whose, filter) => {
    const who = whose === 'owner' ? owner : other;
    expect(await found(who, filter())).toBe(length);
    const isOfAgent = filter().agentId === agentOfTen;
    expect(await blocksRead(who, filter())).toBeLessThan(isOfAgent ? blocksOfAgentMax : blocksMax);
  });

  it('reads no more than it needs in the middle of a long list', async () => {
    const middle = idOfUuid((records / 2).toString(16).padStart(32, '0'));
    expect(await blocksRead(owner, {}, middle)).toBeLessThan(blocksMax);
    expect(await blocksRead(owner, { gateId: busyGates[0] ?? '' }, middle)).toBeLessThan(blocksMax);
  });

  /** A walk down the indexes and each record in a block of its own. */
  const examinedBlocksMax = everything.examinedMax + 200;

  it.each<[name: string, filter: Filter]>([
    ['a rare permission key', () => ({ permissionKey: 'orders:refund' })],
    ['a reason that no record has', () => ({ reason: 'pii_detected' })],
    ['a rare permission key of an agent', () => ({ permissionKey: 'orders:refund', agentId: agentOfOne })],
    [
      'an agent with many passports at a gate where it never was',
      () => ({ agentId: agentOfTen, gateId: lonelyGate }),
    ],
  ])('examines a bounded number of records for filters that no index serves: %s', async (_name, filter) => {
    expect(await blocksRead(owner, filter())).toBeLessThan(examinedBlocksMax);
  });

  it('goes on after the last record that it examined, until all that match are found', async () => {
    const filter: AttestationFilter = {
      ...everything,
      permissionKey: 'orders:create',
      reason: 'spend_limit_exceeded',
      untilMs: atMs(200),
    };
    const walk = async (examinedMax?: number) => {
      const pages: string[][] = [];
      let after: Awaited<ReturnType<typeof findPlace>> = null;
      do {
        const asked = { limit: 5, after };
        const page = await listAttestations(api.deps.sql, owner, filter, asked, examinedMax);
        pages.push(page.attestations.map(({ id }) => id));
        after = page.last === null ? null : await findPlace(api.deps.sql, owner, page.last);
      } while (after !== null);
      return pages;
    };
    const pages = await walk();
    expect(pages.map(({ length }) => length)).toEqual([5, 5, 5, 5]);
    for (const examinedMax of [1, 2, 3, 4, 5, 6, 7, 20]) {
      expect((await walk(examinedMax)).flat(), `examines ${examinedMax}`).toEqual(pages.flat());
    }
    const short = await walk(3);
    expect(short.map(({ length }) => length)).toEqual([3, 3, 3, 3, 3, 3, 2]);
  });

  it('ends between two records that share a place, and the next one goes on there', async () => {
    const { accountId, key } = await api.createAccount();
    const asker = liveOwner(accountId);
    const gateId: string = (await api.createGate({}, key)).gate_id;
    const passport = { id: (await api.issuePassport({}, key)).passport_id, owner: asker };
    /** A place has the last 20 bits of a position. */
    const storeAt = async (turn: number, decision: 'PERMIT' | 'BLOCK') => {
      await api.deps
        .sql`SELECT setval(pg_get_serial_sequence('records', 'position'), ${2 ** 40 + turn * 2 ** 20})`;
      const said =
        decision === 'PERMIT'
          ? { decision, reason: null }
          : { decision, reason: 'domain_not_allowed' as const };
      const record = newRecord(
        api,
        { passport, gateId, gateOwner: asker },
        { ...said, timestampMs: atMs(0) },
      );
      await append(api, [record]);
      return record.record.id;
    };
    // Not as they lie in the table, and each decision is a walk of its own.
    const third = await storeAt(3, 'BLOCK');
    const first = await storeAt(1, 'PERMIT');
    const second = await storeAt(2, 'BLOCK');
    const fourth = await storeAt(4, 'PERMIT');
    for (const limit of [1, 2, 3, 4]) {
      for (const filter of [everything, { ...everything, permissionKey: 'orders:create' }]) {
        const met: string[] = [];
        let after: Awaited<ReturnType<typeof findPlace>> = null;
        do {
          const page = await listAttestations(api.deps.sql, asker, filter, { limit, after });
          met.push(...page.attestations.map(({ id }) => id));
          after = page.last === null ? null : await findPlace(api.deps.sql, asker, page.last);
        } while (after !== null);
        expect(met, `pages of ${limit}`).toEqual([fourth, third, second, first]);
      }
    }
  });
});
