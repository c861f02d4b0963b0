import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { decideRequest } from '../../control-plane/decisions/decide-request.ts';
import type { Enforcement } from '../../control-plane/decisions/enforcement.ts';
import { decisionsLimits } from '../../control-plane/decisions/limits.ts';
import { tokenVerifier } from '../../control-plane/decisions/token-verifier.ts';
import type { Deps } from '../../control-plane/deps.ts';
import type { Caller } from '../../control-plane/http/caller.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { databaseFailure } from '../../control-plane/storage/database-away.ts';
import type { GateId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import type { TokenVerdict } from '../../shared/verification/verify-token.ts';
import { parseRequestFacts } from '../../shared/wire/api/check.ts';
import { expectWithin, timed } from '../support/base/time-promise.ts';
import { until, untilAnswer } from '../support/base/until.ts';
import { callerOfAccount, operatorCaller } from '../support/data/caller.ts';
import { codedError, faultyDatabase } from '../support/database/faulty-sql.ts';
import { waitingForLocks } from '../support/database/postgres.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { goToNoon, heldUsd } from '../support/service/approvals.ts';
import { expectSoundStore } from '../support/service/test-sidecar.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
let caller: Caller;
let passport: Reply['body'];

beforeAll(async () => {
  goToNoon(api);
  caller = await operatorCaller(api.deps);
});
afterAll(() => expectSoundStore(api));
beforeEach(async () => {
  passport = await api.issuePassport();
});

interface Asked {
  readonly gateId: GateId;
  readonly jwt?: string;
  readonly as?: Caller;
  readonly isTest?: boolean;
  readonly request?: object;
}

const decide = (
  { gateId, jwt = passport.jwt, as = caller, isTest = false, request = {} }: Asked,
  deps: Deps = api.deps,
): Promise<Enforcement> => {
  const asked = { permission_key: 'orders:create', ...request };
  const verdict = verdictOf(jwt);
  return decideRequest(deps, {
    ...{ caller: as, gateId, token: jwt, verdict, asked, request: parseRequestFacts(asked), isTest },
  });
};

/** Each token is verified once, so that many checks really arrive together. */
const verdicts = new Map<string, TokenVerdict>();
function verdictOf(jwt: string): TokenVerdict {
  const verdict = verdicts.get(jwt) ?? tokenVerifier(api.deps)(jwt);
  verdicts.set(jwt, verdict);
  return verdict;
}

/** A word for what came of each: its outcome or reason, `replayed`, or the code of its error. */
const wordsOf = async (decisions: readonly Promise<Enforcement>[]): Promise<readonly string[]> =>
  (await Promise.allSettled(decisions)).map((each) => {
    if (each.status === 'rejected')
      return databaseFailure(each.reason) ?? each.reason.code ?? each.reason.name;
    if (each.value.kind === 'replayed') return 'replayed';
    const { outcome, reason } = each.value.decision;
    return outcome === 'BLOCK' ? reason : outcome;
  });

/** All in one batch: they ask in one turn of the event loop. */
const together = (asked: readonly Asked[]) => wordsOf(asked.map((each) => decide(each)));

const gateWith = async (constraints: object = {}): Promise<GateId> =>
  (await api.createGate({ constraints })).gate_id;
const recordsOf = async (gateId: GateId): Promise<number> => {
  const [row] = await api.deps.sql<{ count: number }[]>`
    SELECT count(*) AS count FROM attestations WHERE gate_id = ${gateId}`;
  return row?.count ?? 0;
};

/** `begun` has an element for each transaction. */
function countedDeps(): { readonly deps: Deps; readonly begun: readonly object[] } {
  const begun: object[] = [];
  const sql = new Proxy(api.deps.sql, {
    get: (target, name) => {
      if (name === 'begin') begun.push({});
      return Reflect.get(target, name);
    },
  });
  return { deps: { ...api.deps, sql }, begun };
}

describe('checks that arrive together', () => {
  it('are one transaction, with a record for each in its chain', async () => {
    const gateId = await gateWith();
    const { deps, begun } = countedDeps();
    const words = await wordsOf(Array.from({ length: 50 }, () => decide({ gateId }, deps)));
    expect(words).toEqual(Array.from({ length: 50 }, () => 'PERMIT'));
    expect(begun).toHaveLength(1);
    expect(await recordsOf(gateId)).toBe(50);
    const { stats } = (await api.call({ url: `/v1/gates/${gateId}` })).body;
    expect(stats).toMatchObject({ total_requests: 50, permits: 50, blocks: 0 });
  });

  it('are each decided on the money left by earlier ones', async () => {
    const gateId = await gateWith({ spend_limits: { daily_usd: 10 } });
    const amounts = [4, 7, 6, 1];
    const words = await together(amounts.map((amount) => ({ gateId, request: { amount } })));
    expect(words).toEqual(['PERMIT', 'spend_limit_exceeded', 'PERMIT', 'spend_limit_exceeded']);
    expect(await heldUsd(api.deps, gateId)).toBe(10);
  });

  it('with one key, as many as a batch holds, take the units of one', async () => {
    const gateId = await gateWith({ spend_limits: { daily_usd: 40 } });
    const { deps, begun } = countedDeps();
    const request = { idempotency_key: 'one of many', amount: 10 };
    const words = await wordsOf(Array.from({ length: 100 }, () => decide({ gateId, request }, deps)));
    expect([...words].sort()).toEqual(['PERMIT', ...Array.from({ length: 99 }, () => 'replayed')]);
    expect(begun).toHaveLength(1);
    expect(await heldUsd(api.deps, gateId)).toBe(10);
  });

  it('of one request that waits for a person are one approval, beside PERMITs', async () => {
    const gateId = await gateWith({ approvals: { above_usd: 1 }, spend_limits: { daily_usd: 100 } });
    const waiting = { gateId, request: { amount: 5 } };
    const paid = { gateId, request: { amount: 1 } };
    const decisions = [waiting, paid, waiting, paid].map((each) => decide(each));
    expect(await wordsOf(decisions)).toEqual(['SUSPEND', 'PERMIT', 'SUSPEND', 'PERMIT']);
    const approvals = new Set(
      (await Promise.all(decisions)).map((each) => each.kind === 'decided' && each.approval?.approvalId),
    );
    expect(approvals.size).toBe(2);
    expect(await heldUsd(api.deps, gateId)).toBe(7);
  });

  it('fail each for itself: a gate that is gone, a row that cannot be read, a revoked passport', async () => {
    const good = await gateWith();
    const gone = await gateWith();
    const bad = await gateWith();
    const revoked = await api.issuePassport();
    await api.call({ method: 'DELETE', url: `/v1/gates/${gone}` });
    await api.deps.sql`UPDATE gates SET constraints = '{"moon": 1}' WHERE gate_id = ${bad}`;
    await api.call({ url: `/v1/passports/${revoked.passport_id}/revoke`, body: {} });
    const words = await together([
      { gateId: good },
      { gateId: gone },
      { gateId: bad },
      { gateId: good, jwt: revoked.jwt },
      { gateId: good, jwt: 'nonsense' },
      { gateId: good },
    ]);
    expect(words).toEqual([
      ...['PERMIT', 'gate_not_found', 'InvariantError'],
      ...['passport_revoked', 'passport_malformed', 'PERMIT'],
    ]);
    expect(await recordsOf(good)).toBe(4);
  });

  it('and gate tests beside them: a test takes no unit and counts nowhere', async () => {
    const gateId = await gateWith({ rate_limits: { requests_per_day: 1 } });
    const words = await together([{ gateId, isTest: true }, { gateId }, { gateId, isTest: true }]);
    expect(words).toEqual(['PERMIT', 'PERMIT', 'rate_limit_exceeded']);
    const { stats } = (await api.call({ url: `/v1/gates/${gateId}` })).body;
    expect(stats).toMatchObject({ total_requests: 1, permits: 1, blocks: 0 });
  });

  it('all get an error where the commit gets no answer, and nothing of them stands', async () => {
    const gateId = await gateWith({ spend_limits: { daily_usd: 100 } });
    const deps = { ...api.deps, sql: faultyDatabase(api.deps.sql, 0).sql };
    const words = await wordsOf([1, 2, 3].map((amount) => decide({ gateId, request: { amount } }, deps)));
    expect(words).toEqual(['Error', 'Error', 'Error']);
    await until(async () => (await heldUsd(api.deps, gateId)) === 0, { what: 'the voids of all three' });
    const [row] = await api.deps.sql<{ count: number }[]>`
      SELECT count(*) AS count FROM attestations WHERE gate_id = ${gateId} AND resolution = 'voided'`;
    expect(row?.count).toBe(3);
  });
});

it('checks whose scans would take long together are scanned each in a transaction of its own', async () => {
  const gateId = await gateWith({ pii_controls: { mode: 'log_only' } });
  const { deps, begun } = countedDeps();
  let aheadMs = 0;
  /** As if every scan took as long as all of a batch may. */
  const monotonic = () => {
    aheadMs += decisionsLimits.checks.scanMsMax;
    return (api.deps.clock.monotonic() + aheadMs) as MonotonicMillis;
  };
  const slow = { ...deps, clock: { ...api.deps.clock, monotonic } };
  const text = 'mail me@example.com';
  const words = await wordsOf(Array.from({ length: 5 }, () => decide({ gateId, request: { text } }, slow)));
  expect(words).toEqual(Array.from({ length: 5 }, () => 'PERMIT'));
  expect(begun).toHaveLength(5);
});

describe('checks of more windows than the ledger moves in one statement', () => {
  const count = Math.ceil(limits.quotaWindowsPerCallMax / 5) + 5;
  const ofEach = {
    rate_limits: { requests_per_minute: 5, requests_per_hour: 5, requests_per_day: 5, per: 'passport' },
    spend_limits: { daily_usd: 100, monthly_usd: 100, per: 'passport' },
  };
  let all: readonly string[];
  beforeAll(async () => {
    const issued: string[] = [];
    for (let n = 0; n < count; n++) issued.push((await api.issuePassport()).jwt);
    all = issued;
  });
  const askedAt = (gateId: GateId) => all.map((jwt) => ({ gateId, jwt, request: { amount: 1 } }));

  it('are all decided', async () => {
    const gateId = await gateWith(ofEach);
    expect(new Set(await together(askedAt(gateId)))).toEqual(new Set(['PERMIT']));
    expect(await recordsOf(gateId)).toBe(count);
  });

  it('are all voided if the commit gets no answer', async () => {
    const gateId = await gateWith(ofEach);
    const deps = { ...api.deps, sql: faultyDatabase(api.deps.sql, 0).sql };
    const words = await wordsOf(askedAt(gateId).map((each) => decide(each, deps)));
    expect(new Set(words)).toEqual(new Set(['Error']));
    const standing = async () => {
      const [row] = await api.deps.sql<{ count: number }[]>`
        SELECT count(*) AS count FROM attestations a WHERE gate_id = ${gateId} AND resolution IS NULL
          AND NOT EXISTS (SELECT FROM attestations v WHERE v.refers_to = a.attestation_id)`;
      return row?.count;
    };
    await until(async () => (await standing()) === 0, { what: 'the voids of all' });
  });
});

it('a batch that gives way in a deadlock is done again', async () => {
  const gateId = await gateWith();
  let failures = 2;
  const sql = new Proxy(api.deps.sql, {
    get: (target, name) =>
      name === 'begin' && failures-- > 0
        ? () => Promise.reject(codedError('PostgresError', '40P01'))
        : Reflect.get(target, name),
  });
  const words = await wordsOf([1, 2].map(() => decide({ gateId }, { ...api.deps, sql })));
  expect(words).toEqual(['PERMIT', 'PERMIT']);
});

describe('while another program locks the chain of one passport', () => {
  it('checks of other passports are answered, in its batch and of other accounts', async () => {
    const gateId = await gateWith();
    const held = await api.issuePassport();
    const stranger = await api.createAccount();
    const as = callerOfAccount(api.deps, stranger.accountId as Caller['accountId']);
    const strangersGate = (await api.createGate({}, stranger.key)).gate_id;
    const { jwt } = await api.issuePassport({}, stranger.key);
    expect(await together([{ gateId, jwt: held.jwt }])).toEqual(['PERMIT']);
    const other = connect({ url: api.databaseUrl, connectionsMax: 1 });
    let waiting: Promise<readonly string[]> = Promise.resolve([]);
    try {
      await other.begin(async (tx) => {
        await tx`SELECT FROM chains WHERE chain_id = ${held.passport_id} FOR UPDATE`;
        waiting = together([{ gateId, jwt: held.jwt }]);
        expect(await together([{ gateId }, { gateId: strangersGate, jwt, as }])).toEqual([
          'PERMIT',
          'PERMIT',
        ]);
        expect(await recordsOf(gateId)).toBe(2);
      });
      expect(await waiting).toEqual(['PERMIT']);
    } finally {
      await waiting;
      await other.end();
    }
  });

  /** With the chain of the passport held from before the work until after it. */
  async function whileHeld<T>(work: (release: () => Promise<void>) => Promise<T>): Promise<T> {
    const other = connect({ url: api.databaseUrl, connectionsMax: 1 });
    try {
      const holder = await other.reserve();
      await holder`BEGIN`;
      await holder`SELECT FROM chains WHERE chain_id = ${passport.passport_id} FOR UPDATE`;
      return await work(async () => {
        await holder`COMMIT`;
      });
    } finally {
      await other.end({ timeout: 0 });
    }
  }

  it.each([
    ['a lone check', 1],
    ['a batch', 3],
  ])('%s is 503 in time, and leaves nothing', async (_what, count) => {
    const gateId = await gateWith();
    expect(await together([{ gateId }])).toEqual(['PERMIT']);
    await whileHeld(() =>
      expectWithin(limits.decisionDeadlineMs, 'it is refused', async () => {
        const { result: words, ...time } = await timed(() =>
          together(Array.from({ length: count }, () => ({ gateId }))),
        );
        expect(words).toEqual(words.map(() => 'overloaded'));
        expect(time.ms).toBeGreaterThanOrEqual(limits.quotaWaitMsMax - 1);
        return time;
      }),
    );
    expect(await recordsOf(gateId)).toBe(1);
    expect(await together([{ gateId }])).toEqual(['PERMIT']);
  });

  it('a lone check is decided by what holds when its wait is over, not when it began', async () => {
    const gateId = await gateWith();
    const revokedMeanwhile = async (): Promise<readonly string[]> => {
      passport = await api.issuePassport();
      expect(await together([{ gateId }])).toEqual(['PERMIT']);
      return whileHeld(async (release) => {
        const waiting = together([{ gateId }]);
        await until(async () => (await waitingForLocks(api.deps.sql)) > 0, {
          what: 'the check waits for the lock',
        });
        const revoked = await api.call({ url: `/v1/passports/${passport.passport_id}/revoke`, body: {} });
        expect(revoked.status).toBe(200);
        const waitedSinceMs = performance.now();
        await until(() => performance.now() - waitedSinceMs > 2 * decisionsLimits.lockWaitAloneMsMax, {
          what: 'it has waited for longer than one transaction may',
        });
        await release();
        return waiting;
      });
    };
    // On a busy machine the revocation may take so long that the check has given up before it.
    const words = await untilAnswer(revokedMeanwhile, ([word]) => word !== 'overloaded', {
      what: 'a check that still waits when it may go on',
    });
    expect(words).toEqual(['passport_revoked']);
  });
});
