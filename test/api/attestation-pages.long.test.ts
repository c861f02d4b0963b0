import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { NewRecord } from '../../control-plane/attestations/append-records.ts';
import { must } from '../../shared/errors/assert.ts';
import { type DecisionReason, type Outcome, outcomes } from '../../shared/model/decision.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { PermissionKey } from '../../shared/model/permission.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { type Api, startApi } from '../support/api.ts';
import { append, liveOwner, newRecord, operatorOf } from '../support/exports.ts';
import { runs } from '../support/runs.ts';

/**
 * Walks a list page by page while records arrive, with any filter, and holds the walk against a list in
 * memory: it must have met, in order and once, every record that was there when it passed their place, and no
 * other.
 */
let api: Api;
let own: Owner;
let other: Owner;
interface Things {
  readonly passportId: string;
  readonly agentId: string;
  readonly gateId: string;
}
let things: Readonly<Record<'own' | 'other', Things>>;
const startMs = Date.parse('2026-11-01T00:00:00Z');
/** Few moments for many records: ties, and late arrivals, are the rule. */
const moments = 6;

beforeAll(async () => {
  api = await startApi();
  own = await operatorOf(api);
  const account = await api.createAccount();
  other = liveOwner(account.accountId);
  const thingsOf = async (key: string) => {
    const { passport_id, agent_id } = await api.issuePassport({}, key);
    return {
      passportId: passport_id,
      agentId: agent_id,
      gateId: (await api.createGate({}, key)).gate_id,
    };
  };
  things = { own: await thingsOf(api.adminKey), other: await thingsOf(account.key) };
});
afterAll(() => api.close());

type Whose = 'own' | 'other' | null;

interface Drawn {
  readonly passport: Whose;
  readonly gate: Whose;
  readonly asker: 'own' | 'other';
  readonly decision: Outcome;
  readonly moment: number;
  readonly permission: PermissionKey;
}

interface Filter {
  readonly passport: Whose;
  readonly gate: Whose;
  readonly agent: Whose;
  readonly decision: Outcome | null;
  readonly reason: DecisionReason | null;
  readonly permission: PermissionKey | null;
  readonly since: number | null;
  readonly until: number | null;
}

const whose = fc.constantFrom<Whose>('own', 'own', 'other', null);
const decision = fc.constantFrom(...outcomes);
const moment = fc.integer({ min: 0, max: moments });
const permission = fc.constantFrom('orders:create' as PermissionKey, 'orders:read' as PermissionKey);
const reasons = { PERMIT: null, SUSPEND: 'approval_required', BLOCK: 'domain_not_allowed' } as const;
const arrival = fc.array(
  fc.record({
    passport: whose,
    gate: whose,
    asker: fc.constantFrom('own', 'other'),
    decision,
    moment,
    permission,
  }),
  { maxLength: 8 },
);
const filter = fc.record({
  passport: fc.constantFrom<Whose>(null, null, 'own', 'other'),
  gate: fc.constantFrom<Whose>(null, null, 'own', 'other'),
  agent: fc.constantFrom<Whose>(null, null, null, 'own', 'other'),
  decision: fc.option(decision, { freq: 2 }),
  reason: fc.constantFrom<DecisionReason | null>(null, null, 'approval_required', 'domain_not_allowed'),
  permission: fc.option(permission, { freq: 2 }),
  since: fc.option(moment, { freq: 2 }),
  until: fc.option(moment, { freq: 2 }),
});

const ownerOf = (who: 'own' | 'other') => (who === 'own' ? own : other);

function recordOf({
  passport,
  gate,
  asker,
  decision: outcome,
  moment: when,
  permission: key,
}: Drawn): NewRecord {
  return newRecord(
    api,
    {
      passport: passport === null ? null : { id: things[passport].passportId, owner: ownerOf(passport) },
      gateId: gate === null ? null : things[gate].gateId,
      gateOwner: ownerOf(gate ?? asker),
    },
    {
      decision: outcome,
      reason: reasons[outcome],
      permissionKey: key,
      timestampMs: (startMs + when) as UnixMillis,
    },
  );
}

/**
 * Whether the operator's list with this filter holds it: the rules of contract §9 in other words than the
 * service's.
 */
function belongs(drawn: Drawn, wanted: Filter): boolean {
  const asksFor = (what: Whose, filtered: Whose) => filtered === null || what === filtered;
  const isReader =
    drawn.passport === 'own' ||
    drawn.gate === 'own' ||
    (drawn.passport === null && drawn.gate === null && drawn.asker === 'own');
  return (
    isReader &&
    asksFor(drawn.passport, wanted.passport) &&
    asksFor(drawn.gate, wanted.gate) &&
    // An agent belongs to the account that issued its passports.
    (wanted.agent === null || (wanted.agent === 'own' && drawn.passport === 'own')) &&
    (wanted.reason === null || reasons[drawn.decision] === wanted.reason) &&
    (wanted.permission === null || drawn.permission === wanted.permission) &&
    (wanted.decision === null || drawn.decision === wanted.decision) &&
    (wanted.since === null || drawn.moment >= wanted.since) &&
    (wanted.until === null || drawn.moment < wanted.until)
  );
}

interface Listed {
  readonly id: string;
  readonly moment: number;
  readonly arrived: number;
}

const newestFirst = (a: Listed, b: Listed) => b.moment - a.moment || b.arrived - a.arrived;

function queryOf(by: Filter, limit: number): string {
  const { passport, gate, agent, decision: outcome, reason, permission: key, since, until } = by;
  const query = new URLSearchParams({ limit: String(limit) });
  if (passport !== null) query.set('passport_id', things[passport].passportId);
  if (gate !== null) query.set('gate_id', things[gate].gateId);
  if (agent !== null) query.set('agent_id', things[agent].agentId);
  if (outcome !== null) query.set('decision', outcome);
  if (reason !== null) query.set('reason', reason);
  if (key !== null) query.set('permission_key', key);
  if (since !== null) query.set('since', new Date(startMs + since).toISOString());
  if (until !== null) query.set('until', new Date(startMs + until).toISOString());
  return query.toString();
}

describe('pages of attestations', () => {
  it('walk in order over all records of the start, whatever arrives meanwhile', async () => {
    const before = fc.array(arrival, { minLength: 1, maxLength: 3 });
    const during = fc.array(arrival, { minLength: 1, maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(
        before,
        during,
        filter,
        fc.integer({ min: 1, max: 5 }),
        async (first, later, by, limit) => {
          await api.deps.sql`TRUNCATE records, chains`;
          let arrived = 0;
          const known: Listed[] = [];
          const arrive = async (drawn: readonly Drawn[]) => {
            const records = drawn.map(recordOf);
            await append(api, records);
            drawn.forEach((each, i) => {
              const id = must(records[i], 'one record each').record.id;
              if (belongs(each, by)) known.push({ id, moment: each.moment, arrived: arrived + i });
            });
            arrived += drawn.length;
          };
          for (const batch of first) await arrive(batch);

          const waiting = [...later];
          const wanted: string[] = [];
          const walked: string[] = [];
          let last: Listed | null = null;
          for (let cursor: string | null = ''; cursor !== null; ) {
            const rest = known
              .toSorted(newestFirst)
              .filter((each) => last === null || newestFirst(last, each) < 0);
            const page = await api.call({
              url: `/v1/attestations?${queryOf(by, limit)}${cursor === '' ? '' : `&cursor=${cursor}`}`,
            });
            expect(page.status, JSON.stringify(page.body)).toBe(200);
            wanted.push(...rest.slice(0, limit).map(({ id }) => id));
            walked.push(...page.body.attestations.map(({ id }: { id: string }) => id));
            cursor = page.body.next_cursor;
            expect(cursor === null).toBe(rest.length <= limit);
            last = rest.at(limit - 1) ?? null;
            await arrive(waiting.shift() ?? []);
          }
          expect(walked).toEqual(wanted);
        },
      ),
      { numRuns: runs({ short: 40, long: 4_000 }) },
    );
  });
});
