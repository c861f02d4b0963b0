import fc from 'fast-check';
import { expect, it } from 'vitest';
import { hashApiKey, makeApiKey } from '../../shared/crypto/api-key.ts';
import { mayBePending } from '../../shared/decision/check-approval.ts';
import { type CompiledGate, compileGate, noGate } from '../../shared/decision/compile-gate.ts';
import { decide } from '../../shared/decision/decide.ts';
import type { PassportStanding, VerifiedPassport } from '../../shared/decision/facts.ts';
import { needsRun } from '../../shared/decision/run.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import type { RecordForm } from '../../shared/model/attestation.ts';
import { type Id, type IdPrefix, idRandomBytes, makeId, type RequestId } from '../../shared/model/ids.ts';
import type { MonotonicMillis, UnixMillis } from '../../shared/model/time.ts';
import { domainOnRecord } from '../../shared/pii/domain-on-record.ts';
import { permissionOnRecord } from '../../shared/pii/permission-on-record.ts';
import { scanPii } from '../../shared/pii/scan-pii.ts';
import { windowAt } from '../../shared/quota/window.ts';
import { momentOf } from '../../shared/runtime/clock.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import type { Random } from '../../shared/runtime/random.ts';
import { noForeignIssuers } from '../../shared/verification/foreign-issuers.ts';
import { parseRequestFacts } from '../../shared/wire/api/check.ts';
import type { SharedPart } from '../../sidecar/attest/spool-segment.ts';
import { authenticator, type Caller } from '../../sidecar/decide/callers.ts';
import { Check, type ReadyCheck } from '../../sidecar/decide/check.ts';
import { decideLimits } from '../../sidecar/decide/limits.ts';
import { type Attempt, recordOf } from '../../sidecar/decide/record.ts';
import { DecisionReply } from '../../sidecar/decide/replies.ts';
import { Section, type SectionDeps } from '../../sidecar/decide/section.ts';
import type { HeldView } from '../../sidecar/quota/held-view.ts';
import { LeaseHolder } from '../../sidecar/quota/lease-holder.ts';
import { runs } from '../support/base/runs.ts';
import { recordOfParts } from '../support/data/spooled-record.ts';
import { aGate, aPassport, aStanding, nowMs as startMs } from '../unit/decision/samples.ts';

/*
 * The section beside its reference: two copies of one world get the same requests and the same changes
 * between them, and must give the same answers, the same bytes of record, and leave the same units. The
 * reference asks each question in a line of its own, and writes each record whole, with nothing shared.
 */

const someBytes = (seed: number) => new Uint8Array(idRandomBytes).fill(seed);
const key = makeApiKey('live', new Uint8Array(64).fill(7));

const gateConstraints = [
  {},
  { allowed_domains: ['api.example.com', '*.shop.example'] },
  { spend_limits: { per_transaction_usd: 100, daily_usd: 150 } },
  { rate_limits: { requests_per_minute: 4, requests_per_day: 20, per: 'passport' } },
  { approvals: { above_usd: 50 } },
  { pii_controls: { mode: 'block', types: ['email'] } },
  { rate_limits: { requests_per_day: 3 }, spend_limits: { daily_usd: 40, per: 'passport' } },
];
const passports = [
  aPassport(),
  aPassport({ permissions: ['orders:*'] }),
  aPassport({ permissions: ['orders:create'], constraints: { spend_limits: { daily_usd: 60 } } }),
  aPassport({ constraints: { rate_limits: { requests_per_day: 5 }, allowed_domains: ['api.example.com'] } }),
].map((passport, i) => ({
  ...passport,
  passportId: makeId('pass', startMs, someBytes(i + 1)),
  tokenHash: `${i}a`.repeat(32),
}));
const gateIds = gateConstraints.map((_, i) => makeId('gate', startMs, someBytes(20 + i)));

const mostly = <T>(usual: T, ...others: readonly T[]) =>
  fc.oneof(
    { weight: 8, arbitrary: fc.constant(usual) },
    { weight: 1, arbitrary: fc.constantFrom(...others) },
  );

const members = fc.record(
  {
    permission_key: mostly('orders:create', 'orders:read', 'a:b'),
    amount: fc.constantFrom(0, 12.5, 0.000001, 30, 99, 101),
    currency: mostly('USD', 'EUR'),
    domain: mostly('api.example.com', 'a.shop.example', 'elsewhere.example'),
    note: fc.string(),
    idempotency_key: fc.constant('once'),
    approval_id: fc.constantFrom('nonsense', makeId('appr', startMs, someBytes(3))),
  },
  { requiredKeys: ['permission_key', 'amount', 'domain'] },
);
const request = fc.record({
  kind: fc.constant('request' as const),
  passport: fc.nat({ max: passports.length - 1 }),
  /** From 1 on. 0: none; beyond the last: one that does not exist. */
  gate: fc.oneof(
    { weight: 9, arbitrary: fc.integer({ min: 1, max: gateIds.length }) },
    { weight: 1, arbitrary: fc.constantFrom(0, gateIds.length + 1) },
  ),
  members: fc.oneof(
    { weight: 5, arbitrary: members.map(({ idempotency_key: _, approval_id: __, ...rest }) => rest) },
    { weight: 1, arbitrary: members },
  ),
});
/** What happens to passport and key is over after the next request. */
const change = fc.oneof(
  fc.record({
    kind: fc.constant('standing' as const),
    given: fc.constantFrom<Partial<PassportStanding>>(
      { status: 'revoked' },
      { isIssuerSuspended: true },
      { isKeyCompromised: true },
    ),
  }),
  fc.record({ kind: fc.constant('key' as const) }),
  fc.record({ kind: fc.constant('form' as const), form: fc.constantFrom<RecordForm>(1, 2) }),
  fc.record({
    kind: fc.constant('gate' as const),
    gate: fc.nat({ max: gateIds.length - 1 }),
    constraints: fc.constantFrom(...gateConstraints),
    mode: mostly<'live' | 'test'>('live', 'test'),
  }),
  // Of the wall clock, forwards and back; time goes on by a second.
  fc.record({ kind: fc.constant('clock' as const), jumpMs: fc.integer({ min: -5_000, max: 90_000 }) }),
  fc.record({ kind: fc.constant('grant' as const), units: fc.constantFrom(1, 5, 50_000_000) }),
);
const steps = fc.array(fc.oneof({ weight: 6, arbitrary: request }, { weight: 1, arbitrary: change }), {
  minLength: 20,
  maxLength: 60,
});
type Step = (typeof steps extends fc.Arbitrary<infer List> ? List : never) extends (infer One)[]
  ? One
  : never;

/** One of the two copies. */
class World {
  readonly records: string[] = [];
  /** What the section shares between records, of each of them. */
  readonly outcomes: SharedPart[] = [];
  readonly leases;
  readonly deps: SectionDeps;
  readonly section: Section;
  readonly state;
  #ids = 0;
  #wallMs: number = startMs + 60_000;
  #monotonicMs = 1_000;

  constructor() {
    const clock = {
      now: () => this.#wallMs as UnixMillis,
      monotonic: () => this.#monotonicMs as MonotonicMillis,
    };
    const newId = <P extends IdPrefix>(prefix: P, atMs: UnixMillis): Id<P> =>
      makeId(prefix, atMs, someBytes(++this.#ids % 256));
    const random: Random = { newId, bytes: (count) => new Uint8Array(count) };
    const caller: Caller = {
      keyId: makeId('key', startMs, someBytes(9)),
      mode: 'live',
      scopes: ['enforcement:check'],
    };
    const state = {
      ...{ accountId: aGate().accountId, isAccountSuspended: false, version: 0, isKeyKnown: true },
      standingGiven: {} as Partial<PassportStanding>,
      gates: new Map<string, CompiledGate>(),
      recordForm: 1 as RecordForm,
      asOfMs: 400.5,
      caller: (hash: string) => (state.isKeyKnown && hash === hashApiKey(key) ? caller : null),
      gate: (gateId: string) => state.gates.get(gateId) ?? null,
      publicUrl: null,
      issuersAt: () => noForeignIssuers,
      standing: () => aStanding(state.standingGiven),
    };
    this.state = state;
    for (const [i, constraints] of gateConstraints.entries()) this.putGate(i, constraints, 'live');
    this.leases = new LeaseHolder({
      client: { lease: () => Promise.reject(new Error('nothing is granted here')), isAway: false },
      ...{ clock, random: { ...random, newId: (prefix, atMs) => makeId(prefix, atMs, someBytes(1)) } },
      logger: silentLogger,
    });
    this.deps = {
      ...{ state, clock, random, leases: this.leases },
      authenticate: authenticator(state),
      mustNotServe: () => null,
      catchUp: { mayDecideAt: () => true },
      receipts: { refuseUncertified: () => undefined },
      spool: {
        isFull: false,
        append: (parts) => {
          this.outcomes.push(parts.outcome);
          this.records.push(JSON.stringify(recordOfParts(parts)));
        },
      },
    };
    this.section = new Section(this.deps);
  }

  /** All that a decision leaves behind. */
  get traces() {
    return [this.records.length, this.leases.counts.takes, this.#ids];
  }

  putGate(i: number, constraints: object, mode: 'live' | 'test'): void {
    const gateId = must(gateIds[i], 'there is such a gate');
    this.state.gates.set(gateId, compileGate({ ...aGate(constraints), gateId, mode }));
    this.state.version++;
  }

  apply(step: Exclude<Step, { kind: 'request' }>): void {
    this.state.version++;
    if (step.kind === 'standing') this.state.standingGiven = step.given;
    else if (step.kind === 'form') this.state.recordForm = step.form;
    else if (step.kind === 'key') this.state.isKeyKnown = false;
    else if (step.kind === 'gate') this.putGate(step.gate, step.constraints, step.mode);
    else if (step.kind === 'clock') {
      this.#wallMs += step.jumpMs;
      this.#monotonicMs += 1_000;
    } else
      for (const passport of passports)
        for (const gate of this.state.gates.values())
          this.#grant(this.leases.view(gate, passport), step.units);
  }

  endChange(): void {
    this.state.standingGiven = {};
    this.state.isKeyKnown = true;
    this.state.version++;
  }

  /** Each window gets so many units; every second one has a lease id that records name. */
  #grant({ spendWindows, rateWindows }: HeldView, units: number): void {
    for (const [i, window] of [...spendWindows, ...rateWindows].entries()) {
      const { startsAtMs, endsAtMs } = windowAt(window.name.window, startMs);
      const sentAtMs = this.#monotonicMs;
      const numbers = { unitsNeeded: units, unitsAhead: 0, leftMs: 600_000, leased: units };
      window.lease.grant({ granted: units, ...numbers, startsAtMs, endsAtMs, sentAtMs }, sentAtMs);
      if (i % 2 === 0 || units > 5) window.leaseId = i + 1;
    }
  }

  open({ passport: place, gate, members: asked }: Extract<Step, { kind: 'request' }>) {
    const passport = must(passports[place], 'there is such a passport') as VerifiedPassport;
    const gateId = gate === 0 ? null : (gateIds[gate - 1] ?? makeId('gate', startMs, someBytes(99)));
    const responder = { reply: () => undefined, isAborted: false };
    const answerer = { answerDecision: () => undefined, answerLost: () => undefined };
    const head = {
      requestId: 'req_same' as RequestId,
      caller: { mode: 'live' as const, keyId: null },
      authorization: `Bearer ${key}`,
      gateId,
      traceparent: '',
      tracestate: '',
    };
    const check = new Check(answerer, head, responder, 0 as MonotonicMillis, null);
    const received = check.receive({ passport: 'token', request: asked }, parseRequestFacts(asked), null);
    return received.verified({ kind: 'verified', passport });
  }

  /** What is answered at once, or null where the request has to ask. */
  decide(check: ReadyCheck): string | null {
    const passed = this.section.decide(check, momentOf(this.deps.clock));
    if (passed === 'recorded') return must(check.decided, 'it is recorded').body;
    expect(typeof passed, 'little is scanned in a turn').toBe('object');
    return null;
  }

  /** The reference. */
  decidePlainly(check: ReadyCheck): string | null {
    const { authenticate, state, random, leases, clock } = this.deps;
    const { monotonicMs, nowMs } = momentOf(clock);
    authenticate(must(check.authorization, 'a key'), 'enforcement:check', nowMs);
    const gate = check.gateId === null ? null : state.gate(check.gateId);
    if (check.gateId !== null && gate?.mode !== check.caller.mode) throw new ApiError('gate_not_found');
    const accountId = must(state.accountId, 'it is loaded');
    const policy = gate ?? noGate({ accountId, mode: check.caller.mode });
    if (check.token.kind !== 'verified') throw new Error('all of them verified');
    const { passport } = check.token;
    const facts = { kind: 'verified', passport, standing: state.standing(passport, monotonicMs) } as const;
    const { asked, request: read } = check;
    const request = policy.pii === null ? read : { ...read, pii: scanPii(asked, policy.pii.types) };
    const view = leases.view(gate, passport, null);
    const held = [...view.spendWindows, ...view.rateWindows].map(({ lease }) => lease);
    const endsAtMs = Math.min(...held.map((lease) => lease.endsAtMs ?? Number.POSITIVE_INFINITY));
    const begunMs = Math.max(nowMs, ...held.map((lease) => lease.startsAtMs ?? 0));
    const atMs = Math.min(begunMs, endsAtMs - 1) as UnixMillis;
    const decision = decide(policy, facts, request, view, atMs);
    const attestationId = random.newId('att', atMs);
    const pending = mayBePending(policy, passport, request, decision);
    if (needsRun(decision, request, pending)) return null;
    expect(decision.isRedacted, 'no gate redacts here').toBe(false);
    const attempt: Attempt = {
      ...{ decision, attestationId, approval: null, redacted: null, nowMs: atMs },
      ...{ gate, facts, request, view, mayBePending: pending },
      stateAgeMs: monotonicMs - state.asOfMs,
      shadow: null,
    };
    const { permissionKey } = request;
    const record = recordOf(attempt, {
      permissionKey: policy.pii === null ? permissionKey : permissionOnRecord(permissionKey, policy.pii),
      domain: domainOnRecord(request.domain, policy.pii),
      callerMode: check.caller.mode,
      accountId,
      form: state.recordForm,
    });
    if (decision.charge !== null) leases.take(view, decision.charge);
    this.records.push(JSON.stringify(record));
    return new DecisionReply(decision, attempt, check).body;
  }
}

const errorOf = <T>(work: () => T): T | { readonly code: string } => {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return { code: error.code };
  }
};

it('gives the answers and the records of its reference', async () => {
  let requests = 0;
  const outcomes = new Map<string, number>();
  const worlds: World[] = [];
  fc.assert(
    fc.property(steps, (list) => {
      const world = new World();
      const plain = new World();
      worlds.push(world, plain);
      for (const step of list) {
        if (step.kind !== 'request') {
          world.apply(step);
          plain.apply(step);
          continue;
        }
        requests++;
        const expected = errorOf(() => plain.decidePlainly(plain.open(step)));
        const answered = errorOf(() => world.decide(world.open(step)));
        expect(answered).toEqual(expected);
        const outcome = typeof answered === 'string' ? JSON.parse(answered).decision : 'none';
        outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
        world.endChange();
        plain.endChange();
      }
      expect(world.traces).toEqual(plain.traces);
      expect(world.records).toEqual(plain.records);
    }),
    { numRuns: runs({ short: 150, long: 5_000 }) },
  );
  await Promise.all(worlds.map(({ leases }) => leases.stop()));
  for (const outcome of ['PERMIT', 'BLOCK', 'none'])
    expect((outcomes.get(outcome) ?? 0) / requests, outcome).toBeGreaterThan(0.1);
});

it.each(['PERMIT', 'BLOCK'])(
  'remembers a bounded number of permissions of a gate for a %s, and records the others as well',
  async (outcome) => {
    const world = new World();
    const plain = new World();
    const { outcomesMax } = decideLimits;
    const keyed = (place: number): Extract<Step, { kind: 'request' }> => ({
      kind: 'request',
      passport: passports.findIndex(({ permissions }) => permissions.has('orders:*')),
      gate: 1,
      members: {
        permission_key: `${outcome === 'PERMIT' ? 'orders' : 'others'}:made_up_${place}`,
        amount: 30,
        domain: 'api.example.com',
      },
    });
    const places = [...Array(outcomesMax).keys(), 0, outcomesMax, 0];
    for (const place of places) {
      const body = world.decide(world.open(keyed(place)));
      expect(JSON.parse(body ?? '')).toMatchObject({ decision: outcome });
      expect(plain.decidePlainly(plain.open(keyed(place)))).toBe(body);
    }
    expect(world.records).toEqual(plain.records);
    const [first, again, later] = [0, outcomesMax, outcomesMax + 2].map((at) => world.outcomes[at]);
    expect(again, 'while there is room').toBe(first);
    expect(later, 'one more made room').not.toBe(first);
    await Promise.all([world, plain].map(({ leases }) => leases.stop()));
  },
);
