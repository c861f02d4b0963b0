import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { PassportId } from '../../../shared/model/ids.ts';
import { limits } from '../../../shared/model/limits.ts';
import type { MonotonicMillis, UnixMillis } from '../../../shared/model/time.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';
import { systemRandom } from '../../../shared/runtime/random.ts';
import { type EndedSpan, Tracer } from '../../../shared/telemetry/tracer.ts';
import type { TraceContext } from '../../../shared/wire/api/trace-context.ts';
import type { Settlement, SettlementAnswer } from '../../../shared/wire/sync/settlement.ts';
import { ControlPlaneError } from '../../../sidecar/replica/control-plane-error.ts';
import { settleLimits } from '../../../sidecar/settle/limits.ts';
import type { SettlementOutcome, UnsentSettlement } from '../../../sidecar/settle/open-settlement.ts';
import { Settlements } from '../../../sidecar/settle/settlements.ts';

const committed: SettlementAnswer = { kind: 'committed' };
const none: SettlementAnswer = { kind: 'none', may_change: false };

interface SentCall {
  readonly settlements: readonly Settlement[];
  readonly holder: string;
  readonly trace: TraceContext | null;
  answer(...answers: SettlementAnswer[]): void;
  fail(error?: Error): void;
}

/** Settlements whose control plane answers what the test gives it, one call after the other. */
function setUp(tracer: Tracer | null = null) {
  const calls: SentCall[] = [];
  const world = { isAway: false };
  const start = performance.now();
  const made = new Settlements({
    send: (sent, holder, trace) =>
      new Promise((resolve, reject) => {
        calls.push({
          settlements: sent,
          holder,
          trace,
          answer: (...answers) => resolve(answers),
          fail: (error = new Error('no answer')) => reject(error),
        });
      }),
    isAway: () => world.isAway,
    clock: { now: () => 0 as UnixMillis, monotonic: () => (performance.now() - start) as MonotonicMillis },
    random: systemRandom(),
    logger: silentLogger,
    tracer,
  });
  const told: { readonly name: string; readonly outcome: SettlementOutcome; readonly isCertain: boolean }[] =
    [];
  const send = (
    name: string,
    given: {
      kind?: Settlement['kind'];
      key?: string | null;
      untilMs?: number;
      holder?: string;
      passport?: string;
      traceparent?: string;
    } = {},
  ) => {
    const { kind = 'permit', key = null, untilMs = 250, holder = 'h', passport = 'p', traceparent } = given;
    made.send(
      { ...settlementOf(name, kind, key), passport_id: passport as PassportId },
      holder,
      untilMs as MonotonicMillis,
      (outcome, isCertain) => told.push({ name, outcome, isCertain }),
      traceparent === undefined ? undefined : { traceparent, tracestate: 'a=1' },
    );
  };
  /** Names of the settlements of each call. */
  const sent = () =>
    calls.map(({ settlements: all }) => all.map(({ request_hash }) => request_hash).join(' '));
  const kinds = () => told.map(({ name, outcome }) => `${name} ${outcome.kind}`);
  return { made, world, calls, told, send, sent, kinds };
}

/** Named by its hash. What else is sent is not looked at here. */
const settlementOf = (name: string, kind: Settlement['kind'], key: string | null) =>
  ({
    kind,
    passport_id: 'p',
    gate_id: 'g',
    request_hash: name,
    idempotency_key: key,
  }) as unknown as UnsentSettlement;

const overloaded = new ControlPlaneError('settlements', 503, { code: 'overloaded', message: '' });
const refused = Object.assign(new Error('refused'), { code: 'ECONNREFUSED' });

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

describe('settlements', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it('of one turn travel in one call, in their order, and each gets its own answer', async () => {
    const { calls, send, sent, told, made } = setUp();
    for (const name of ['a', 'b', 'c']) send(name);
    expect(calls).toHaveLength(0);
    await pass(0);
    expect(sent()).toEqual(['a b c']);
    const conflict = { kind: 'conflict' } as const;
    const refused = { kind: 'refused', message: 'no' } as const;
    calls[0]?.answer(committed, conflict, refused);
    await pass(0);
    expect(told).toEqual([
      { name: 'a', outcome: committed, isCertain: true },
      { name: 'b', outcome: conflict, isCertain: true },
      { name: 'c', outcome: refused, isCertain: true },
    ]);
    expect([made.open, [...made.counts]]).toEqual([
      0,
      ['committed', 'conflict', 'refused'].map((outcome) => ({ kind: 'permit', outcome, count: 1 })),
    ]);
  });

  it('of one trace travel in it, and a call that is of several, or of none, names none', async () => {
    const trace = (letter: string, parent: string) => `00-${letter.repeat(32)}-${parent.repeat(16)}-01`;
    const callOf = async (...traces: (string | undefined)[]) => {
      const { calls, send } = setUp();
      for (const [n, traceparent] of traces.entries()) {
        send(`s${n}`, traceparent === undefined ? {} : { traceparent });
      }
      await pass(0);
      return calls.map((call) => call.trace?.traceparent ?? null);
    };
    expect(await callOf(trace('a', '1'))).toEqual([trace('a', '1')]);
    expect(await callOf(trace('a', '1'), trace('a', '2'))).toEqual([trace('a', '1')]);
    expect(await callOf(trace('a', '1'), trace('b', '1'))).toEqual([null]);
    expect(await callOf(trace('a', '1'), undefined)).toEqual([null]);
    expect(await callOf(undefined, trace('a', '1'))).toEqual([null]);
    expect(await callOf('not a trace')).toEqual([null]);
    expect(await callOf('not a trace', undefined)).toEqual([null]);
    const { calls, send } = setUp();
    send('one', { traceparent: trace('a', '1') });
    await pass(0);
    expect(calls[0]?.trace?.tracestate).toBe('a=1');
  });

  it('of several traces travel in one that links to them, where they are traced', async () => {
    const ended: EndedSpan[] = [];
    const take = (span: EndedSpan) => void ended.push(span);
    const bytes = (count: number) => systemRandom().bytes(count);
    const sampler = { isByParent: true, ratio: 0 };
    const { calls, send } = setUp(new Tracer({ sampler, take, bytes }));
    const spanIds = ['1', '2', '3'].map((id) => id.repeat(16));
    for (const [n, id] of spanIds.entries())
      send(`s${n}`, { traceparent: `00-${'abc'.charAt(n).repeat(32)}-${id}-0${n === 2 ? 0 : 1}` });
    await pass(0);
    calls[0]?.answer(committed, committed, committed);
    await pass(0);
    expect(ended).toMatchObject([{ name: 'settlements', parentId: null, isError: false }]);
    expect(ended[0]?.links.map(({ parentId }) => parentId)).toEqual(spanIds.slice(0, 2));
    expect(calls[0]?.trace).toMatchObject({ traceId: ended[0]?.traceId, parentId: ended[0]?.spanId });
  });

  it('that have less time left than a call takes are shed unsent, but for one that measures it again', async () => {
    const { calls, send, sent, kinds } = setUp();
    send('slow', { untilMs: 1_000 });
    await pass(300);
    calls[0]?.answer(committed);
    await pass(0);
    for (const name of ['a', 'b', 'c']) send(name, { untilMs: 500 });
    await pass(0);
    expect([sent(), kinds()]).toEqual([
      ['slow', 'c'],
      ['slow committed', 'a shed', 'b shed'],
    ]);
    await pass(10);
    calls[1]?.answer(committed);
    await pass(0);
    // Calls have become quicker.
    await pass(20);
    for (const name of ['d', 'e']) send(name, { untilMs: 500 });
    await pass(0);
    expect([sent().at(-1), kinds().at(-1)]).toEqual(['d e', 'c committed']);
  });

  it('of copies are not shed, whatever calls took while the first of them was under way', async () => {
    const { calls, send, kinds } = setUp();
    send('slow', { untilMs: 1_000 });
    await pass(300);
    calls[0]?.answer(committed);
    await pass(0);
    send('looked up', { kind: 'look_up', key: 'k', untilMs: 500 });
    for (const name of ['first', 'copy']) send(name, { key: 'another', untilMs: 500 });
    send('other', { untilMs: 500 });
    await pass(0);
    expect(kinds()).toEqual(['slow committed', 'other shed']);
    calls[1]?.answer(none, committed, committed);
    await pass(0);
    expect(kinds().slice(2)).toEqual(['looked up none', 'first committed', 'copy committed']);
  });

  it('are shed as soon as a call would take longer than they have left, also while none can be sent', async () => {
    const { calls, send, kinds } = setUp();
    send('slow', { untilMs: 1_000 });
    await pass(300);
    calls[0]?.answer(committed);
    await pass(0);
    for (const name of ['a', 'b', 'c']) {
      send(name, { untilMs: 1_300 });
      await pass(0);
    }
    expect(calls).toHaveLength(3);
    await pass(690);
    expect(kinds()).toEqual(['slow committed']);
    await pass(30);
    expect(kinds()).toEqual(['slow committed', 'c shed']);
  });

  it('gather while two calls are under way, for the next', async () => {
    const { calls, send, sent } = setUp();
    for (const name of ['a', 'b', 'c', 'd']) {
      send(name);
      await pass(0);
    }
    expect(sent()).toEqual(['a', 'b']);
    calls[1]?.answer(committed);
    await pass(0);
    expect(sent()).toEqual(['a', 'b', 'c d']);
  });

  describe('beside a call under way', () => {
    const long = { untilMs: 60_000 };
    /** Six were open when a call was answered: three of them at once, and three after them. */
    const withSixOpen = async (callMs = 100) => {
      const all = setUp();
      for (const name of ['a', 'b', 'c']) all.send(name, long);
      await pass(0);
      for (const name of ['d', 'e', 'f']) all.send(name, long);
      await pass(0);
      await pass(callMs);
      all.calls[0]?.answer(committed, committed, committed);
      await pass(0);
      expect(all.sent()).toEqual(['a b c', 'd e f']);
      return all;
    };

    it('wait until they are half of those open at the last answer', async () => {
      const { send, sent } = await withSixOpen();
      for (const name of ['g', 'h']) {
        send(name, long);
        await pass(0);
      }
      expect(sent()).toHaveLength(2);
      send('i', long);
      await pass(0);
      expect(sent().slice(2)).toEqual(['g h i']);
    });

    it('wait no longer than it is under way, however few they are', async () => {
      const { send, sent, calls } = await withSixOpen();
      send('g', long);
      await pass(0);
      calls[1]?.answer(committed, committed, committed);
      await pass(0);
      expect(sent().slice(2)).toEqual(['g']);
    });
  });

  it('travel in calls of a bounded size', async () => {
    const { send, calls } = setUp();
    for (let n = 0; n <= limits.settlementsPerCallMax; n++) send(`${n}`);
    await pass(0);
    expect(calls.map(({ settlements: { length } }) => length)).toEqual([limits.settlementsPerCallMax, 1]);
  });

  it('say how long their answer is still wanted', async () => {
    const { calls, send } = setUp();
    send('a', { untilMs: 250 });
    send('b', { untilMs: 40 });
    await pass(0);
    const wanted = calls[0]?.settlements.map(({ wanted_ms }) => wanted_ms);
    expect(wanted).toEqual([250, 40]);
  });

  it('of two holders travel apart', async () => {
    const { calls, send, sent } = setUp();
    send('a', { holder: 'old' });
    send('b', { holder: 'new' });
    send('c', { holder: 'old' });
    await pass(0);
    expect(sent()).toEqual(['a c', 'b']);
    expect(calls.map(({ holder }) => holder)).toEqual(['old', 'new']);
  });

  describe('whose time is over', () => {
    it('are unknown where they were sent, and shed where they were not', async () => {
      const { send, kinds, made, calls } = setUp();
      for (const name of ['a', 'b', 'c']) {
        send(name);
        await pass(0);
      }
      await pass(249);
      expect(kinds()).toEqual([]);
      await pass(21);
      expect(kinds()).toEqual(['a unknown', 'b unknown', 'c shed']);
      expect(made.open).toBe(0);
      // What comes later changes nothing.
      calls[0]?.answer(committed);
      await pass(0);
      expect(kinds()).toHaveLength(3);
    });

    it('when they come are shed, but not before send has returned', async () => {
      const { send, kinds, calls } = setUp();
      send('a', { untilMs: 0 });
      expect(kinds()).toEqual([]);
      await pass(0);
      expect([kinds(), calls.length]).toEqual([['a shed'], 0]);
    });
  });

  it('are shed newest first where too many are open', async () => {
    const { send, kinds, made } = setUp();
    for (let n = 0; n < settleLimits.settlementsMax; n++) send('old');
    send('new');
    await pass(0);
    expect([kinds(), made.open]).toEqual([['new shed'], settleLimits.settlementsMax]);
  });

  describe('whose call got no answer', () => {
    it('are retried before later ones, and are uncertain from then on', async () => {
      const { calls, send, sent, told } = setUp();
      send('a');
      await pass(0);
      send('b');
      send('c');
      await pass(0);
      calls[0]?.fail();
      calls[1]?.fail();
      await pass(0);
      send('d');
      await pass(limits.retryFirstMs);
      expect(sent().slice(2)).toEqual(['b c a d']);
      calls[2]?.answer({ kind: 'conflict' }, committed, committed, committed);
      await pass(0);
      expect(told.map(({ name, isCertain }) => [name, isCertain])).toEqual([
        ['b', false],
        ['c', false],
        ['a', false],
        ['d', true],
      ]);
    });

    it('are uncertain also where there are more or fewer answers than settlements', async () => {
      const { calls, send, told } = setUp();
      send('a');
      await pass(0);
      calls[0]?.answer(committed, committed);
      await pass(limits.retryFirstMs);
      calls[1]?.answer({ kind: 'conflict' });
      await pass(0);
      expect(told).toEqual([{ name: 'a', outcome: { kind: 'conflict' }, isCertain: false }]);
    });

    it.each([
      [
        '412 precondition_failed',
        new ControlPlaneError('settlements', 412, { code: 'precondition_failed', message: '' }),
        true,
      ],
      ['503 overloaded', overloaded, true],
      ['no connection', refused, true],
      // From a proxy that waits no longer, and an answer cut short: the control plane may still be at work.
      ['408 of a proxy', new ControlPlaneError('settlements', 408, null), false],
      ['200 and nonsense', new ControlPlaneError('settlements', 200, null), false],
      ['500', new ControlPlaneError('settlements', 500, { code: 'internal_error', message: '' }), false],
      // Also where some of the call are committed and others are not.
      [
        '503 service_unavailable',
        new ControlPlaneError('settlements', 503, { code: 'service_unavailable', message: '' }),
        false,
      ],
    ])('have not begun after %s: %s', async (_what, error, isCertain) => {
      const { calls, send, told } = setUp();
      send('a');
      await pass(0);
      calls[0]?.fail(error);
      await pass(limits.retryFirstMs);
      calls[1]?.answer({ kind: 'conflict' });
      await pass(0);
      expect(told).toEqual([{ name: 'a', outcome: { kind: 'conflict' }, isCertain }]);
    });

    it.each([
      // What is in between may deliver it once more, to a control plane that has room.
      ['unknown, where it was turned away', [overloaded]],
      ['unknown, where an attempt without an answer came before', [new Error('no answer'), overloaded]],
      ['unknown, where an attempt came before that nobody accepted', [refused, overloaded]],
      ['shed, where nobody accepted a connection', []],
    ])('are %s until their time was over', async (what, errors) => {
      const { calls, send, kinds } = setUp();
      send('a', { untilMs: 300 });
      await pass(0);
      for (let attempt = 0; kinds().length === 0; await pass(1)) {
        // None is under way in the end: those after the first ones find nobody.
        if (calls[attempt] === undefined) continue;
        calls[attempt]?.fail(errors[attempt] ?? refused);
        attempt++;
      }
      expect(calls.length).toBeGreaterThan(errors.length);
      expect(kinds()).toEqual([`a ${what.split(',')[0]}`]);
    });

    it('pause longer and longer, up to a bound', async () => {
      const { calls, send } = setUp();
      send('a', { untilMs: 1_000_000 });
      await pass(0);
      for (let failed = 0; failed < 20; failed++) {
        calls.at(-1)?.fail();
        await pass(limits.leaseRetryLastMs);
      }
      expect(calls).toHaveLength(21);
      calls.at(-1)?.fail();
      await pass(limits.leaseRetryLastMs / 2 - 1);
      expect(calls).toHaveLength(21);
    });
  });

  describe('while the control plane is known to be away', () => {
    it('are not sent', async () => {
      const { world, send, kinds, calls } = setUp();
      world.isAway = true;
      send('a');
      expect(kinds()).toEqual([]);
      await pass(0);
      expect([kinds(), calls.length]).toEqual([['a away'], 0]);
    });

    it('are told so where they never arrived, and unknown where they did', async () => {
      const { world, calls, send, kinds } = setUp();
      send('a');
      await pass(0);
      send('b');
      await pass(0);
      send('c');
      world.isAway = true;
      calls[0]?.fail();
      await pass(0);
      calls[1]?.fail(refused);
      await pass(0);
      expect(kinds().sort()).toEqual(['a unknown', 'b away', 'c away']);
    });

    it('are unknown where they were turned away before, and look-ups are told so', async () => {
      const { world, calls, send, kinds } = setUp();
      send('a');
      send('b', { kind: 'look_up' });
      await pass(0);
      world.isAway = true;
      calls[0]?.fail(overloaded);
      await pass(0);
      expect(kinds().sort()).toEqual(['a unknown', 'b away']);
    });
  });

  it('of a passport wait for the call that is about it, while there are others', async () => {
    const { calls, send, sent } = setUp();
    send('a1', { passport: 'a' });
    await pass(0);
    for (const name of ['a2', 'a3']) send(name, { passport: 'a' });
    for (const name of ['b1', 'b2']) send(name, { passport: 'b' });
    await pass(0);
    expect(sent()).toEqual(['a1', 'b1 b2']);
    calls[0]?.answer(committed);
    calls[1]?.answer(committed, committed);
    await pass(0);
    expect(sent()).toEqual(['a1', 'b1 b2', 'a2 a3']);
    calls[2]?.answer(committed, committed);
    await pass(0);
    // Where there are no others nothing waits.
    for (const name of ['c1', 'c2']) {
      send(name, { passport: 'c' });
      await pass(0);
    }
    expect(sent().slice(3).join(' ')).toBe('c1 c2');
  });

  describe('that look up a key', () => {
    it('wait until the permits of that key here are known, and no others do', async () => {
      const { calls, send, sent, kinds } = setUp();
      send('p1', { key: 'k' });
      send('p2', { key: 'k' });
      await pass(0);
      send('l', { kind: 'look_up', key: 'k' });
      send('other', { kind: 'look_up', key: 'another' });
      await pass(0);
      expect(sent()).toEqual(['p1 p2', 'other']);
      calls[1]?.answer(none);
      await pass(0);
      expect(sent()).toHaveLength(2);
      calls[0]?.answer(committed, { kind: 'conflict' });
      await pass(0);
      expect(sent()).toEqual(['p1 p2', 'other', 'l']);
      expect(kinds()).toEqual(['other none', 'p1 committed', 'p2 conflict']);
    });

    it('look again when a permit of that key began here before they were answered that nothing is known', async () => {
      const { calls, send, sent, kinds } = setUp();
      send('l', { kind: 'look_up', key: 'k' });
      await pass(0);
      send('p', { key: 'k' });
      await pass(0);
      calls[0]?.answer(none);
      await pass(0);
      expect([sent(), kinds()]).toEqual([['l', 'p'], []]);
      calls[1]?.answer(committed);
      await pass(0);
      expect([sent(), kinds()]).toEqual([['l', 'p', 'l'], ['p committed']]);
    });

    it('are sent when the time of that permit is over, though nothing is known of it', async () => {
      const { send, sent } = setUp();
      send('p', { key: 'k', untilMs: 100 });
      send('l', { kind: 'look_up', key: 'k', untilMs: 1_000 });
      await pass(140);
      expect(sent()).toEqual(['p', 'l']);
    });
  });

  it('tell the others when one of them throws', async () => {
    const { made, calls, send, kinds } = setUp();
    made.send(settlementOf('bad', 'permit', null), 'h', 250 as MonotonicMillis, () => {
      throw new Error('a bug of one request');
    });
    send('a');
    await pass(0);
    calls[0]?.answer(committed, committed);
    await pass(0);
    expect([kinds(), made.open]).toEqual([['a committed'], 0]);
  });

  it('are all told when they are stopped, and none is sent after that', async () => {
    const { made, calls, send, kinds } = setUp();
    send('sent');
    await pass(0);
    send('queued');
    made.stop();
    expect([kinds(), made.open]).toEqual([['sent unknown', 'queued shed'], 0]);
    send('late');
    await pass(0);
    calls[0]?.fail();
    await pass(60_000);
    expect([kinds().at(-1), kinds().length, calls.length, vi.getTimerCount()]).toEqual([
      'late shed',
      3,
      1,
      0,
    ]);
  });
});
