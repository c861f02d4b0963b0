import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { hashApiKey, makeApiKey } from '../../shared/crypto/api-key.ts';
import { RequestWriter } from '../../shared/crypto/request-writer.ts';
import { type CompiledGate, compileGate } from '../../shared/decision/compile-gate.ts';
import { compileRateWindows } from '../../shared/decision/compile-windows.ts';
import type { PassportStanding } from '../../shared/decision/facts.ts';
import { piiTypes } from '../../shared/model/constraints.ts';
import type { AccountId, RequestId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Mode } from '../../shared/model/mode.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { windowAt } from '../../shared/quota/window.ts';
import { type Clock, systemClock } from '../../shared/runtime/clock.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import { systemRandom } from '../../shared/runtime/random.ts';
import { noForeignIssuers } from '../../shared/verification/foreign-issuers.ts';
import { noConstraints } from '../../shared/wire/api/constraints.ts';
import type { SettlementVoid, SpooledRecord } from '../../shared/wire/sync/sync.ts';
import type { RecordOwner } from '../../sidecar/attest/spool.ts';
import type { RecordParts } from '../../sidecar/attest/spool-segment.ts';
import { Answers } from '../../sidecar/decide/answers.ts';
import { authenticator, type Caller } from '../../sidecar/decide/callers.ts';
import { Section } from '../../sidecar/decide/section.ts';
import type { Reply } from '../../sidecar/http/server.ts';
import { httpCheck } from '../../sidecar/intake/http-check.ts';
import { InProcessChecks } from '../../sidecar/intake/in-process/in-process-checks.ts';
import { Intake } from '../../sidecar/intake/intake.ts';
import { KeptBodies } from '../../sidecar/intake/kept-bodies.ts';
import { Turns } from '../../sidecar/intake/turns.ts';
import type { LeaseClient } from '../../sidecar/quota/lease-caller.ts';
import { LeaseHolder } from '../../sidecar/quota/lease-holder.ts';
import { Decider } from '../../sidecar/settle/decider.ts';
import { settleLimits } from '../../sidecar/settle/limits.ts';
import type { OnSettled, SettlementOutcome, UnsentSettlement } from '../../sidecar/settle/open-settlement.ts';
import { verifyPool } from '../../sidecar/verify/pool.ts';
import { verifiedCache } from '../../sidecar/verify/verified-cache.ts';
import {
  PassportVerifier,
  type Place,
  type ReportOutcome,
  type TokenOutcome,
} from '../../sidecar/verify/verifier.ts';
import { until } from '../support/base/until.ts';
import { recordOfParts } from '../support/data/spooled-record.ts';
import { authority } from '../support/data/tokens.ts';

const random = systemRandom();
const now = Date.UTC(2026, 0, 1, 0, 1) as UnixMillis;
const clock: Clock = { now: () => now, monotonic: systemClock.monotonic };
const service = authority(1);
const accountId = random.newId('acct', now);
const key = makeApiKey('live', random.bytes(64));
const requestId = 'req_under_test' as RequestId;

function newGate(mode: Mode = 'live'): CompiledGate {
  const gateId = random.newId('gate', now);
  return compileGate({
    gateId,
    accountId,
    mode,
    version: 1,
    policyVersion: 1,
    policyHash: null,
    trustLevel: 'L1',
    constraints: { ...noConstraints, trustedIssuers: 'any' },
  });
}

const active: PassportStanding = {
  status: 'active',
  isIssuerSuspended: false,
  isAccountSuspended: false,
  isKeyCompromised: false,
  isInWallet: false,
  stateAgeMs: 0,
};

/** What was sent to the control plane, and the ear that waits for its answer. */
interface Settling {
  readonly settlement: UnsentSettlement;
  readonly onOutcome: (outcome: SettlementOutcome, isCertain?: boolean) => void;
}

/** A spine whose state, verifier and spool stand still until the test moves them. */
function setUp(lease: LeaseClient['lease'] = () => Promise.reject(new Error('no limit is set here'))) {
  const gate = newGate();
  const gates = new Map([[gate.gateId as string, gate]]);
  const world = {
    accountId: accountId as AccountId | null,
    standing: active,
    isFull: false,
    isKeyValid: true,
    isAccountSuspended: false,
    mustNotServe: null as string | null,
    mayDecide: true,
    mayWait: true,
    /** Requests that wait until it may decide again. */
    behind: [] as (() => void)[],
    /** What the verifier says at once; null: it holds the question. */
    outcome: null as TokenOutcome | null,
  };
  let versions = 0;
  const asked: ReportOutcome[] = [];
  const leases = new LeaseHolder({
    client: { lease, isAway: false },
    clock,
    random,
    logger: silentLogger,
  });
  const settling: Settling[] = [];
  const spooled: { readonly record: SpooledRecord; readonly owner: RecordOwner }[] = [];
  const voids: { readonly entry: SettlementVoid; readonly owner: RecordOwner }[] = [];
  const cache = verifiedCache(10);
  const real = new PassportVerifier({
    keys: () => service.keys,
    cache,
    pool: verifyPool({ threads: 1, logger: silentLogger }),
    clock,
    logger: silentLogger,
    inlineWhenAlone: true,
  });
  const deps = {
    mustNotServe: () => world.mustNotServe,
    catchUp: {
      mayDecideAt: () => world.mayDecide,
      wait: (resume: () => void) => {
        if (!world.mayWait) return false;
        world.behind.push(resume);
        return true;
      },
    },
    state: {
      get accountId() {
        return world.accountId;
      },
      get isAccountSuspended() {
        return world.isAccountSuspended;
      },
      // The world changes without notice.
      get version() {
        return ++versions;
      },
      caller: (hash: string): Caller | null =>
        world.isKeyValid && hash === hashApiKey(key)
          ? { keyId: random.newId('key', now), mode: 'live', scopes: ['enforcement:check'] }
          : null,
      gate: (id: string) => gates.get(id) ?? null,
      publicUrl: null,
      issuersAt: () => noForeignIssuers,
      standing: () => world.standing,
      recordForm: 2 as const,
      asOfMs: 0,
    },
    verifier: {
      ...real,
      known: () => null,
      verify: (_token: string, _place: Place, settle: ReportOutcome) =>
        world.outcome === null ? asked.push(settle) : settle(world.outcome),
      counts: real.counts,
      close: () => real.close(),
    },
    spool: {
      get isFull() {
        return world.isFull;
      },
      append: (parts: RecordParts, owner: RecordOwner) =>
        spooled.push({ record: recordOfParts(parts), owner }),
      appendVoid: (entry: SettlementVoid, owner: RecordOwner) => voids.push({ entry, owner }),
    },
    leases,
    settlements: {
      send: (settlement: UnsentSettlement, _holder: string, _untilMs: number, onSettled: OnSettled) =>
        settling.push({
          settlement,
          onOutcome: (outcome, isCertain = true) => onSettled(outcome, isCertain),
        }),
    },
    receipts: { refuseUncertified: () => undefined, issue: () => undefined },
    clock,
    random,
    logger: silentLogger,
  };
  const authenticate = authenticator(deps.state);
  const answers = new Answers(deps);
  const proofs = {
    settle: () => {
      throw new Error('no proof is demanded here');
    },
  };
  const decider = new Decider({ ...deps, answers, proofs, section: new Section({ ...deps, authenticate }) });
  const intake = new Intake({ ...deps, authenticate, answers, decider });
  const outcomeOf = (token: string): Promise<TokenOutcome> =>
    new Promise((resolve) => real.verify(token, { mode: 'live', issuers: noForeignIssuers }, resolve));
  close = async () => {
    answers.stop();
    decider.stop();
    await leases.stop();
    await real.close();
  };
  return { intake, answers, decider, world, gate, gates, asked, spooled, voids, settling, outcomeOf };
}

/** Each passport is a good one, and verified at once. */
async function setUpVerified(lease?: LeaseClient['lease']) {
  const all = setUp(lease);
  all.world.outcome = await all.outcomeOf(service.token());
  return all;
}

/** Of what the test has set up. */
let close: () => Promise<void> = async () => undefined;
afterEach(async () => {
  vi.useRealTimers();
  await close();
});

type World = ReturnType<typeof setUp>;
const writer = new RequestWriter();

/** Sends a body and holds the replies. */
function send(
  to: Pick<World, 'intake' | 'answers'>,
  gateId: string | null,
  body: unknown,
): { replies: Reply[]; isAborted: boolean } {
  const client: { replies: Reply[]; isAborted: boolean } = { replies: [], isAborted: false };
  try {
    const authorization = `Bearer ${key}`;
    const handle = httpCheck(
      { intake: to.intake, writer },
      { authorization, traceparent: '', tracestate: '' },
      { gateId, requestId, nowMs: now },
    );
    handle(Buffer.from(JSON.stringify(body)), {
      get isAborted() {
        return client.isAborted;
      },
      reply: (reply) => client.replies.push(reply),
    });
  } catch (error) {
    client.replies.push(to.answers.failure(error, requestId));
  }
  return client;
}

const bodies = ({ replies }: { replies: Reply[] }) => replies.map(({ body }) => JSON.parse(body));
const permitIdOf = (settlement: UnsentSettlement) =>
  settlement.kind === 'permit' ? settlement.record.id : null;
const request = { permission_key: 'orders:create' };

describe('a check, from its body to its answer,', () => {
  it('answers only when the record is written, with the id of the record', async () => {
    const world = await setUpVerified();
    const client = send(world, world.gate.gateId, { passport: 'x', request });
    expect([world.spooled.length, client.replies.length]).toEqual([1, 0]);
    world.spooled[0]?.owner.onWritten();
    expect(client.replies[0]?.status).toBe(200);
    expect(bodies(client)[0]).toMatchObject({
      decision: 'PERMIT',
      attestation_id: world.spooled[0]?.record.id,
    });
    expect(client.replies[0]?.requestId).toBe(requestId);
    expect([...world.answers.decisions]).toEqual([{ outcome: 'PERMIT', reason: null, count: 1 }]);
  });

  it('answers overloaded, and no decision, when the record could not be written', async () => {
    const world = await setUpVerified();
    const client = send(world, world.gate.gateId, { passport: 'x', request });
    world.spooled[0]?.owner.onFailed();
    expect(bodies(client)).toEqual([{ error: expect.objectContaining({ code: 'overloaded', status: 503 }) }]);
    expect(client.replies[0]?.body).not.toContain('PERMIT');
  });

  it('counts as refused only clients that still wait when their record is lost', async () => {
    const world = await setUpVerified();
    const ask = () => send(world, world.gate.gateId, { passport: 'x', request });
    const [gone, waiting] = [ask(), ask()];
    gone.isAborted = true;
    for (const { owner } of world.spooled) owner.onFailed();
    expect(bodies(waiting)).toEqual([{ error: expect.objectContaining({ code: 'overloaded' }) }]);
    expect([world.answers.shed, world.answers.openRequests]).toEqual([1, 0]);
  });

  it('counts as refused only clients that still wait at their deadline', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
    const world = setUp();
    const ask = () => send(world, world.gate.gateId, { passport: 'x', request });
    const [gone, waiting] = [ask(), ask()];
    gone.isAborted = true;
    vi.advanceTimersByTime(1.25 * limits.decisionDeadlineMs);
    expect(bodies(waiting)).toEqual([{ error: expect.objectContaining({ code: 'overloaded' }) }]);
    expect([world.answers.shed, world.answers.openRequests]).toEqual([1, 0]);
  });

  it('refuses a check whose passport is verified after its deadline, before the deadline is noticed', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
    const world = setUp();
    const outcome = await world.outcomeOf(service.token());
    // Between two looks at what is late.
    vi.advanceTimersByTime(100);
    const client = send(world, world.gate.gateId, { passport: 'x', request });
    vi.advanceTimersByTime(limits.decisionDeadlineMs + 100);
    expect(bodies(client)).toEqual([]);
    world.asked[0]?.(outcome);
    expect(bodies(client)).toEqual([{ error: expect.objectContaining({ code: 'overloaded' }) }]);
    expect([world.spooled.length, world.answers.shed, world.answers.openRequests]).toEqual([0, 1, 0]);
  });

  it('decides nothing while the spool is full', async () => {
    const world = await setUpVerified();
    world.world.isFull = true;
    const client = send(world, world.gate.gateId, { passport: 'x', request });
    expect(bodies(client)[0]).toMatchObject({ error: { code: 'overloaded' } });
    expect([world.spooled.length, [...world.answers.decisions].length, world.answers.shed]).toEqual([
      0, 0, 1,
    ]);
  });

  it.each([
    ['overloaded', 'overloaded'],
    ['unavailable', 'service_unavailable'],
  ] as const)('makes no decision about a passport when verification is %s', (kind, code) => {
    const world = setUp();
    world.world.outcome = { kind };
    const client = send(world, world.gate.gateId, { passport: 'x', request });
    expect(bodies(client)[0]).toMatchObject({ error: { code, status: 503 } });
    expect(world.spooled).toHaveLength(0);
  });

  it('decides nothing for a caller whose key or account went between head and decision', async () => {
    const world = setUp();
    const outcome = await world.outcomeOf(service.token());
    const deleted = send(world, world.gate.gateId, { passport: 'x', request });
    const suspended = send(world, world.gate.gateId, { passport: 'x', request });
    world.world.isKeyValid = false;
    world.asked[0]?.(outcome);
    expect(bodies(deleted)[0]).toMatchObject({ error: { code: 'unauthorized', status: 401 } });
    world.world.isKeyValid = true;
    world.world.isAccountSuspended = true;
    world.asked[1]?.(outcome);
    expect(bodies(suspended)[0]).toMatchObject({ error: { code: 'account_suspended' } });
    expect([world.spooled.length, [...world.answers.decisions].length]).toEqual([0, 0]);
  });

  it('decides nothing while it catches up, and by the new state afterwards', async () => {
    const world = await setUpVerified();
    world.world.mayDecide = false;
    const client = send(world, world.gate.gateId, { passport: 'x', request });
    world.world.mayWait = false;
    const oneTooMany = send(world, world.gate.gateId, { passport: 'x', request });
    expect(bodies(oneTooMany)[0]).toMatchObject({ error: { code: 'overloaded' } });
    expect([world.spooled.length, client.replies.length]).toEqual([0, 0]);
    world.world.mayDecide = true;
    world.world.standing = { ...active, status: 'revoked' };
    for (const resume of world.world.behind) resume();
    expect(world.spooled.map(({ record }) => record.reason)).toEqual(['passport_revoked']);
  });

  it('decides nothing that waited while it was told not to serve', async () => {
    const world = setUp();
    const outcome = await world.outcomeOf(service.token());
    world.world.mayDecide = false;
    world.world.outcome = outcome;
    const behind = send(world, world.gate.gateId, { passport: 'x', request });
    world.world.mayDecide = true;
    world.world.outcome = null;
    const unverified = send(world, world.gate.gateId, { passport: 'x', request });
    world.world.mustNotServe = 'Another process has its id.';
    for (const resume of world.world.behind) resume();
    world.asked[0]?.(outcome);
    const refused = { error: { code: 'service_unavailable', message: 'Another process has its id.' } };
    for (const client of [behind, unverified]) expect(bodies(client)).toMatchObject([refused]);
    expect(world.spooled).toEqual([]);
  });

  it('decides by the state after verification, not before', async () => {
    const world = setUp();
    const outcome = await world.outcomeOf(service.token());
    const revoked = send(world, world.gate.gateId, { passport: 'x', request });
    const homeless = send(world, world.gate.gateId, { passport: 'x', request });
    world.world.standing = { ...active, status: 'revoked' };
    world.asked[0]?.(outcome);
    world.spooled[0]?.owner.onWritten();
    expect(bodies(revoked)[0]).toMatchObject({ decision: 'BLOCK', reason: 'passport_revoked' });
    world.gates.clear();
    world.asked[1]?.(outcome);
    expect(bodies(homeless)[0]).toMatchObject({ error: { code: 'gate_not_found' } });
    expect(world.spooled).toHaveLength(1);
  });

  it('scans for personal data no longer than a moment in one turn, and decides every request in the end', async () => {
    const world = await setUpVerified();
    world.gates.set(world.gate.gateId, { ...world.gate, pii: { mode: 'block', types: piiTypes } });
    const text = '(202) 555-0143 or '.repeat(3_000);
    const body = { passport: 'x', request: { ...request, text } };
    const count = 64;
    for (let n = 0; n < count; n++) send(world, world.gate.gateId, body);
    expect(world.spooled.length).toBeGreaterThan(0);
    expect(world.spooled.length).toBeLessThan(count / 2);
    await until(() => world.spooled.length === count, { what: 'every decision' });
    expect(new Set(world.spooled.map(({ record }) => record.reason))).toEqual(new Set(['pii_detected']));
  });

  it('answers internal_error once on an unexpected exception, without its details', () => {
    const world = setUp();
    world.world.outcome = { kind: 'nonsense' } as never;
    const client = send(world, world.gate.gateId, { passport: 'x', request });
    expect(bodies(client)).toEqual([
      { error: expect.objectContaining({ code: 'internal_error', status: 500 }) },
    ]);
    expect([world.answers.internalErrors, world.spooled.length]).toEqual([1, 0]);
  });

  it('writes the record of a passport whose key was compromised into the chain of the gate, not into its own', async () => {
    const world = await setUpVerified();
    world.world.standing = { ...active, isKeyCompromised: true };
    send(world, world.gate.gateId, { passport: 'x', request });
    const { gateId } = world.gate;
    const foreign = { chain_id: gateId, passport_id: null, token_hash: null, decision: 'BLOCK' };
    expect(world.spooled.map(({ record }) => record)).toMatchObject([foreign]);
  });

  describe('with an idempotency key', () => {
    const keyed = { ...request, idempotency_key: 'order-1' };
    const first = {
      attestation_id: random.newId('att', now),
      constraints_evaluated: ['passport'],
      pii: [],
    } as const;

    async function permitted() {
      const world = await setUpVerified();
      const client = send(world, world.gate.gateId, { passport: 'x', request: keyed });
      const [sent] = world.settling;
      if (sent === undefined) throw new Error('a PERMIT with a key is settled');
      return { ...world, client, sent };
    }

    it('answers a PERMIT when it is committed, and spools nothing', async () => {
      const { sent, client, spooled, answers } = await permitted();
      expect(client.replies).toHaveLength(0);
      expect(sent.settlement).toMatchObject({
        kind: 'permit',
        idempotency_key: 'order-1',
        approval_id: null,
        gate_version: 1,
        record: { decision: 'PERMIT' },
      });
      sent.onOutcome({ kind: 'committed' });
      const { settlement } = sent;
      expect(bodies(client)[0]).toMatchObject({
        decision: 'PERMIT',
        attestation_id: permitIdOf(settlement),
      });
      expect(spooled).toHaveLength(0);
      expect([...answers.decisions]).toEqual([{ outcome: 'PERMIT', reason: null, count: 1 }]);
    });

    it('waits for a duplicate before a limit refuses it, and sends no look-up for a client that disconnected', async () => {
      const window = windowAt('day', now);
      const grant = { granted: 0, limit: 1, leased: 1, starts_at_ms: window.startsAtMs };
      let leave = (): void => undefined;
      const world = setUp(async ({ asks }) => {
        // While both wait for what is left of the limit.
        leave();
        return {
          grants: asks.map(() => ({ ...grant, ends_at_ms: window.endsAtMs, left_ms: window.endsAtMs - now })),
        };
      });
      world.world.outcome = await world.outcomeOf(service.token());
      const rateLimits = {
        per: 'gate',
        requestsPerMinute: null,
        requestsPerHour: null,
        requestsPerDay: 1,
      } as const;
      world.gates.set(world.gate.gateId, {
        ...world.gate,
        rateWindows: compileRateWindows(rateLimits, 'gate'),
      });
      const ask = () => send(world, world.gate.gateId, { passport: 'x', request: keyed });
      const gone = ask();
      const client = ask();
      leave = () => {
        gone.isAborted = true;
      };
      await until(() => world.settling.length > 0, { what: 'the look-up of the client that stayed' });
      expect(world.settling.map(({ settlement }) => settlement.kind)).toEqual(['look_up']);
      world.settling[0]?.onOutcome({ kind: 'replayed', first });
      expect(bodies(client)[0]).toMatchObject({ decision: 'PERMIT', attestation_id: first.attestation_id });
      expect([bodies(gone), world.answers.openRequests]).toEqual([[], 0]);
    });

    it('lets one passport leave others room to wait for a limit that may change', async () => {
      const world = setUp();
      const tokens = [service.token(), service.token()];
      const [crowd, other] = await Promise.all(tokens.map(world.outcomeOf));
      const waiting = { kind: 'refused', message: 'changed', is_passing: true, is_closed: true } as const;
      const ask = () => send(world, world.gate.gateId, { passport: 'x', request: keyed });
      const passing = (from: number) => {
        for (const sent of world.settling.slice(from)) sent.onOutcome(waiting);
      };
      world.world.outcome = crowd ?? null;
      const many = Array.from({ length: settleLimits.retries.waitingMax }, ask);
      passing(0);
      world.world.outcome = other ?? null;
      const one = ask();
      const sentBefore = world.settling.length - 1;
      const passportId = world.settling[sentBefore]?.settlement.passport_id;
      passing(sentBefore);
      const isAsked = () =>
        world.settling.slice(sentBefore + 1).some(({ settlement }) => settlement.passport_id === passportId);
      await until(() => isAsked() || bodies(one).length > 0, { what: 'the other asks again' });
      expect(bodies(one)).toEqual([]);
      expect(many.filter((each) => bodies(each).length === 0)).toHaveLength(
        settleLimits.retries.waitingPerOwnerMax,
      );
      passing(sentBefore + 1);
    });

    it.each([
      ['conflict', { kind: 'conflict' }],
      ['late', { kind: 'late' }],
      ['refused', { kind: 'refused', message: 'no such gate' }],
      ['blocked', { kind: 'blocked', reason: 'passport_revoked' }],
    ] as const)(
      'voids it with its reading before it answers, where it was answered %s',
      async (_kind, outcome) => {
        const { sent, client, spooled, voids } = await permitted();
        sent.onOutcome(outcome);
        expect([client.replies.length, spooled.length]).toEqual([0, 0]);
        const { settlement } = sent;
        expect(voids.map(({ entry }) => entry)).toEqual([
          expect.objectContaining({
            voids: permitIdOf(settlement),
            reader_id: settlement.reader_id,
          }),
        ]);
        voids[0]?.owner.onWritten();
        expect(client.replies.length + spooled.length).toBe(1);
      },
    );

    it('answers overloaded if the spool breaks at the void of a BLOCK', async () => {
      const { sent, client, spooled, voids, world, answers } = await permitted();
      sent.onOutcome({ kind: 'blocked', reason: 'passport_revoked' });
      world.isFull = true;
      voids[0]?.owner.onFailed();
      expect(bodies(client)).toEqual([
        { error: expect.objectContaining({ code: 'overloaded', status: 503 }) },
      ]);
      expect([spooled.length, answers.internalErrors]).toEqual([0, 0]);
    });

    describe('and the PERMIT of another request', () => {
      const replayed = { kind: 'replayed', first } as const;
      /** Void together, without units: these are free again since the first PERMIT was found. */
      const withItsReading = ({ settlement }: Settling) =>
        expect.objectContaining({
          voids: permitIdOf(settlement),
          reader_id: settlement.reader_id,
          took: [],
        });

      it('voids no reading of what its client was answered with', async () => {
        const { sent, client, voids } = await permitted();
        sent.onOutcome(replayed);
        expect(bodies(client)[0]).toMatchObject({ decision: 'PERMIT', attestation_id: first.attestation_id });
        expect(voids).toHaveLength(0);
      });

      it('voids its reading for a client that has gone', async () => {
        const { sent, client, voids } = await permitted();
        client.isAborted = true;
        sent.onOutcome(replayed);
        expect(voids.map(({ entry }) => entry)).toEqual([withItsReading(sent)]);
        expect(client.replies).toHaveLength(0);
      });

      it('voids its reading where its deadline ends between the reading and its answer', async () => {
        const { sent, client, voids, world } = await permitted();
        // It is read, and cannot be decided on: the sidecar catches up.
        world.mayDecide = false;
        sent.onOutcome(replayed);
        await until(() => client.replies.length > 0, { what: 'its deadline' });
        expect(bodies(client)[0]).toMatchObject({ error: { code: 'overloaded', status: 503 } });
        expect(voids.map(({ entry }) => entry)).toEqual([withItsReading(sent)]);
        world.mayDecide = true;
        for (const resume of world.behind) resume();
        expect([client.replies.length, voids.length]).toEqual([1, 1]);
      });

      it('voids its reading where a later check blocks the client', async () => {
        const { sent, client, spooled, voids, world } = await permitted();
        world.standing = { ...active, status: 'revoked' };
        sent.onOutcome(replayed);
        spooled[0]?.owner.onWritten();
        expect(bodies(client)[0]).toMatchObject({ decision: 'BLOCK', reason: 'passport_revoked' });
        expect(voids.map(({ entry }) => entry)).toEqual([withItsReading(sent)]);
      });
    });
  });

  it('in this process waits for no passport but its own', async () => {
    const world = setUp();
    const { gate, intake, answers, asked, spooled } = world;
    const verified = await world.outcomeOf(service.token());
    const checks = new InProcessChecks({
      ...{ intake, answers, writer, random, turns: new Turns(1), bodies: new KeptBodies() },
      outcomes: { take: () => undefined },
    });
    const ask = () => checks.ask(gate.gateId, { passport: 'x', request }, {});
    world.world.outcome = verified;
    const decisions = [ask(), ask(), ask()];
    world.world.outcome = null;
    while (asked.length === 0) await nextTurn();
    world.world.outcome = verified;
    for (let turns = 0; turns < 10; turns++) await nextTurn();
    expect(spooled).toHaveLength(2);
    asked[0]?.(verified);
    expect(spooled).toHaveLength(3);
    for (const { owner } of spooled) owner.onWritten();
    for (const { decision } of await Promise.all(decisions)) expect(decision).toBe('PERMIT');
    await checks.stop();
  });
});
