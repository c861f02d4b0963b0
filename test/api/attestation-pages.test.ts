import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import type { NewRecord } from '../../control-plane/attestations/append-records.ts';
import { must } from '../../shared/errors/assert.ts';
import { type DecisionReason, outcomes } from '../../shared/model/decision.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { PermissionKey } from '../../shared/model/permission.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { runs } from '../support/base/runs.ts';
import { startOwnApi } from '../support/service/api.ts';
import { append, liveOwner, newRecord, ownerOf } from '../support/service/exports.ts';
import { useApi } from '../support/service/use-api.ts';

/**
 * Walks a list page by page while records arrive, with any filter, and holds the walk against a list in
 * memory: it must have met, in order and once, every record that was there when it passed their place, and no
 * other.
 */
const api = useApi(startOwnApi);
let own: Owner;
let other: Owner;
type Things = Readonly<Record<'passportId' | 'agentId' | 'gateId', string>>;
let things: Readonly<Record<'own' | 'other', Things>>;
const startMs = Date.parse('2026-11-01T00:00:00Z');
/** Few moments for many records: ties, and late arrivals, are the rule. */
const moments = 6;

beforeAll(async () => {
  own = await ownerOf(api);
  const account = await api.createAccount();
  other = liveOwner(account.accountId);
  const thingsOf = async (key: string) => {
    const { passport_id, agent_id } = await api.issuePassport({}, key);
    return { passportId: passport_id, agentId: agent_id, gateId: (await api.createGate({}, key)).gate_id };
  };
  things = { own: await thingsOf(api.adminKey), other: await thingsOf(account.key) };
});

type Whose = 'own' | 'other' | null;

const whose = fc.constantFrom<Whose>('own', 'own', 'other', null);
const decision = fc.constantFrom(...outcomes);
const moment = fc.integer({ min: 0, max: moments });
const permission = fc.constantFrom('orders:create' as PermissionKey, 'orders:read' as PermissionKey);
const reasons = { PERMIT: null, SUSPEND: 'approval_required', BLOCK: 'domain_not_allowed' } as const;
const drawn = fc.record({
  ...{ passport: whose, gate: whose, asker: fc.constantFrom<'own' | 'other'>('own', 'other') },
  ...{ decision, moment, permission },
});
type Drawn = typeof drawn extends fc.Arbitrary<infer Value> ? Value : never;
const arrival = fc.array(drawn, { maxLength: 8 });
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
type Filter = typeof filter extends fc.Arbitrary<infer Value> ? Value : never;

const accountOf = (who: 'own' | 'other') => (who === 'own' ? own : other);

function recordOf({ passport, gate, asker, ...said }: Drawn): NewRecord {
  const owned = passport === null ? null : { id: things[passport].passportId, owner: accountOf(passport) };
  const gateId = gate === null ? null : things[gate].gateId;
  const change = {
    ...{ decision: said.decision, reason: reasons[said.decision], permissionKey: said.permission },
    timestampMs: (startMs + said.moment) as UnixMillis,
  };
  return newRecord(api, { passport: owned, gateId, gateOwner: accountOf(gate ?? asker) }, change);
}

/**
 * Whether the operator's list with this filter holds it: the rules of contract §9 in other words than the
 * service's.
 */
function belongs(met: Drawn, wanted: Filter): boolean {
  const asksFor = (what: Whose, filtered: Whose) => filtered === null || what === filtered;
  const isReader =
    met.passport === 'own' ||
    met.gate === 'own' ||
    (met.passport === null && met.gate === null && met.asker === 'own');
  return (
    isReader &&
    asksFor(met.passport, wanted.passport) &&
    asksFor(met.gate, wanted.gate) &&
    // An agent belongs to the account that issued its passports.
    (wanted.agent === null || (wanted.agent === 'own' && met.passport === 'own')) &&
    (wanted.reason === null || reasons[met.decision] === wanted.reason) &&
    (wanted.permission === null || met.permission === wanted.permission) &&
    (wanted.decision === null || met.decision === wanted.decision) &&
    (wanted.since === null || met.moment >= wanted.since) &&
    (wanted.until === null || met.moment < wanted.until)
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
          const arrive = async (come: readonly Drawn[]) => {
            const records = come.map(recordOf);
            await append(api, records);
            come.forEach((each, i) => {
              const id = must(records[i], 'one record each').record.id;
              if (belongs(each, by)) known.push({ id, moment: each.moment, arrived: arrived + i });
            });
            arrived += come.length;
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
      { numRuns: runs({ short: 25, long: 4_000 }) },
    );
  });
});
