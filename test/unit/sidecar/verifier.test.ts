import { afterEach, describe, expect, it, vi } from 'vitest';
import type { MonotonicMillis } from '../../../shared/model/time.ts';
import { type Clock, systemClock } from '../../../shared/runtime/clock.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';
import { noForeignIssuers } from '../../../shared/verification/foreign-issuers.ts';
import { verifyLimits } from '../../../sidecar/verify/limits.ts';
import type { VerifyPool } from '../../../sidecar/verify/pool.ts';
import { verifiedCache } from '../../../sidecar/verify/verified-cache.ts';
import { PassportVerifier, type TokenOutcome, type VerifierDeps } from '../../../sidecar/verify/verifier.ts';
import {
  checkTask,
  packTask,
  rememberVerifiers,
  type VerifyJob,
} from '../../../sidecar/verify/verify-task.ts';
import { until } from '../../support/base/until.ts';
import { authority, ed25519, withWrongSignature } from '../../support/data/tokens.ts';

const service = authority(1);
const stranger = authority(2);

/** A pool whose tasks end when the test says so; the signatures are really checked. */
class HeldPool implements VerifyPool {
  readonly capacity: number;
  readonly tasks: { readonly jobs: number; finish(): void; fail(): void }[] = [];
  restarts = 0;
  isClosed = false;

  constructor(capacity: number) {
    this.capacity = capacity;
  }

  verify(jobs: readonly VerifyJob[]): Promise<number> {
    const packed = packTask(jobs);
    return new Promise((resolve, reject) => {
      this.tasks.push({
        jobs: jobs.length,
        finish: () => resolve(checkTask(packed, rememberVerifiers(ed25519))),
        fail: () => reject(new Error('the thread died')),
      });
    });
  }

  restart(): void {
    this.restarts++;
    for (const task of this.tasks) task.fail();
  }

  ready(): Promise<void> {
    return Promise.resolve();
  }

  async close(): Promise<void> {
    this.isClosed = true;
    for (const task of this.tasks) task.fail();
  }
}

function setUp(options: Partial<VerifierDeps> & { readonly capacity?: number } = {}) {
  const pool = new HeldPool(options.capacity ?? 2);
  const cache = verifiedCache(1000);
  const verifier = new PassportVerifier({
    keys: () => service.keys,
    cache,
    pool,
    clock: systemClock,
    logger: silentLogger,
    inlineWhenAlone: false,
    ...options,
  });
  return { pool, cache, verifier };
}

/** Asks for a token and holds what comes back. */
function ask(verifier: PassportVerifier, token: string): { outcome: TokenOutcome | null; calls: number } {
  const asked: { outcome: TokenOutcome | null; calls: number } = { outcome: null, calls: 0 };
  verifier.verify(token, { mode: 'live', issuers: noForeignIssuers }, (outcome) => {
    asked.outcome = outcome;
    asked.calls++;
  });
  return asked;
}

const turn = () => new Promise((resolve) => setImmediate(resolve));
const told = (asked: { outcome: TokenOutcome | null }) =>
  asked.outcome?.kind === 'refused' ? asked.outcome.reason : (asked.outcome?.kind ?? null);

describe('the verifier', () => {
  afterEach(() => void vi.useRealTimers());

  it('sends the unknown tokens of one turn as one task', async () => {
    const { pool, verifier } = setUp();
    const asked = [service.token(), withWrongSignature(service.token()), service.token()].map((token) =>
      ask(verifier, token),
    );
    expect(pool.tasks).toHaveLength(0);
    await turn();
    expect(pool.tasks.map(({ jobs }) => jobs)).toEqual([3]);
    pool.tasks[0]?.finish();
    await until(() => asked.every(({ calls }) => calls === 1), { what: 'three outcomes' });
    expect(asked.map(told)).toEqual(['verified', 'passport_signature_invalid', 'verified']);
  });

  it('refuses by shape or key at once, without any task', async () => {
    const { pool, verifier } = setUp();
    const refusals = ['', 'x', 'a.b.c', service.token().slice(0, -1), `${service.token()}A`].map((token) =>
      told(ask(verifier, token)),
    );
    expect(refusals).toEqual(refusals.map(() => 'passport_malformed'));
    expect(told(ask(verifier, stranger.token()))).toBe('passport_unknown_key');
    await turn();
    expect(pool.tasks).toHaveLength(0);
    expect(verifier.counts).toMatchObject({ refusedUnverified: 6, misses: 0, waiting: 0 });
  });

  it('knows a token after it verified, and never one that failed', async () => {
    const { pool, cache, verifier } = setUp();
    const [good, bad] = [service.token(), withWrongSignature(service.token())];
    const asked = [ask(verifier, good), ask(verifier, bad)];
    await turn();
    pool.tasks[0]?.finish();
    await until(() => asked.every(({ calls }) => calls === 1), { what: 'two outcomes' });
    expect(verifier.known(good)).not.toBeNull();
    expect(verifier.known(bad)).toBeNull();
    expect(cache.size).toBe(1);
  });

  it('verifies a token once that several ask for, also while it is under way', async () => {
    const { pool, verifier } = setUp();
    const token = service.token();
    const asked = [ask(verifier, token), ask(verifier, token)];
    await turn();
    asked.push(ask(verifier, token));
    await turn();
    expect(pool.tasks.map(({ jobs }) => jobs)).toEqual([1]);
    pool.tasks[0]?.finish();
    await until(() => asked.every(({ calls }) => calls === 1), { what: 'three outcomes' });
    expect(asked.map(told)).toEqual(['verified', 'verified', 'verified']);
  });

  it('answers each of two tokens under way for itself, though they end alike', async () => {
    const { pool, cache, verifier } = setUp();
    const token = service.token();
    const other = service.token({ permissions: ['admin:*'] });
    const forged = other.slice(0, other.lastIndexOf('.')) + token.slice(token.lastIndexOf('.'));
    const asked = [forged, token, forged, token].map((each) => ask(verifier, each));
    expect(verifier.counts.waiting).toBe(4);
    await turn();
    // The one that came second is found under nobody's name, and checked as often as it is asked for.
    expect(pool.tasks.map(({ jobs }) => jobs)).toEqual([3]);
    pool.tasks[0]?.finish();
    await until(() => asked.every(({ calls }) => calls === 1), { what: 'four outcomes' });
    const signature = 'passport_signature_invalid';
    expect(asked.map(told)).toEqual([signature, 'verified', signature, 'verified']);
    expect(cache.find(token)).not.toBeNull();
    expect([cache.find(forged), verifier.counts.waiting]).toEqual([null, 0]);
  });

  it('gathers tokens while every thread is busy, at most a batch in a task', async () => {
    const { pool, verifier } = setUp({ capacity: 1 });
    ask(verifier, service.token());
    await turn();
    const later = Array.from({ length: verifyLimits.verifyBatchMax + 1 }, () => service.token());
    const asked: ReturnType<typeof ask>[] = [];
    for (const token of later) {
      asked.push(ask(verifier, token));
      await turn();
    }
    expect(pool.tasks).toHaveLength(1);
    for (let task = 0; task < 3; task++) {
      await until(() => pool.tasks.length > task, { what: `task ${task}` });
      pool.tasks[task]?.finish();
    }
    await until(() => asked.every(({ calls }) => calls === 1), { what: 'all outcomes' });
    expect(pool.tasks.map(({ jobs }) => jobs)).toEqual([1, verifyLimits.verifyBatchMax, 1]);
  });

  it('sheds at the bound, counting requests for the same token, and accepts more when there is room', async () => {
    const { pool, verifier } = setUp({ queueMax: 3 });
    const token = service.token();
    const asked = [ask(verifier, token), ask(verifier, token), ask(verifier, service.token())];
    expect(told(ask(verifier, service.token()))).toBe('overloaded');
    expect(told(ask(verifier, token))).toBe('overloaded');
    expect(told(ask(verifier, 'garbage'))).toBe('passport_malformed');
    expect(verifier.counts).toMatchObject({ shed: 2, waiting: 3 });
    await turn();
    pool.tasks[0]?.finish();
    await until(() => asked.every(({ calls }) => calls === 1), { what: 'three outcomes' });
    expect(verifier.counts.waiting).toBe(0);
    const next = ask(verifier, service.token());
    await turn();
    pool.tasks[1]?.finish();
    await until(() => next.calls === 1, { what: 'the next outcome' });
    expect(told(next)).toBe('verified');
  });

  it('gives up on a late task, replaces the threads, and calls no waiter twice', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const clock: Clock = { now: systemClock.now, monotonic: () => 0 as MonotonicMillis };
    const { pool, verifier } = setUp({ deadlineMs: 20, clock });
    const asked = ask(verifier, service.token());
    await turn();
    vi.advanceTimersByTime(19);
    expect([asked.calls, pool.restarts]).toEqual([0, 0]);
    vi.advanceTimersByTime(1);
    await turn();
    expect([told(asked), pool.restarts]).toEqual(['overloaded', 1]);
    const next = ask(verifier, service.token());
    await turn();
    expect(pool.tasks).toHaveLength(2);
    pool.tasks[1]?.finish();
    await turn();
    expect([told(next), asked.calls, verifier.counts.waiting]).toEqual(['verified', 1, 0]);
  });

  it('sheds requests that waited too long for a thread instead of verifying for them', async () => {
    let nowMs = 0;
    const clock: Clock = { now: systemClock.now, monotonic: () => nowMs as MonotonicMillis };
    const { pool, verifier } = setUp({ capacity: 1, deadlineMs: 1_000, clock });
    ask(verifier, service.token());
    await turn();
    const early = ask(verifier, service.token());
    nowMs = 600;
    const late = ask(verifier, service.token());
    nowMs = 1_001;
    pool.tasks[0]?.finish();
    await until(() => pool.tasks.length === 2, { what: 'the second task' });
    expect([told(early), told(late), pool.tasks[1]?.jobs]).toEqual(['overloaded', null, 1]);
    pool.tasks[1]?.finish();
    await until(() => late.calls === 1, { what: 'the outcome of the one in time' });
    expect(told(late)).toBe('verified');
  });

  it('settles everything when it is closed, and everything after that', async () => {
    const { pool, verifier } = setUp({ capacity: 1 });
    const asked = [ask(verifier, service.token())];
    await turn();
    asked.push(ask(verifier, service.token()));
    await verifier.close();
    asked.push(ask(verifier, service.token()));
    await turn();
    expect(asked.map(told)).toEqual(['unavailable', 'unavailable', 'unavailable']);
    expect([pool.isClosed, pool.tasks.length]).toEqual([true, 1]);
  });

  it('checks a token that is alone on the spot where it may, and hands over company', async () => {
    const { pool, verifier } = setUp({ inlineWhenAlone: true });
    const alone = ask(verifier, service.token());
    const forged = withWrongSignature(service.token());
    await turn();
    expect([told(alone), pool.tasks.length]).toEqual(['verified', 0]);
    const aloneAndForged = ask(verifier, forged);
    await turn();
    expect([told(aloneAndForged), pool.tasks.length]).toEqual(['passport_signature_invalid', 0]);
    const company = [ask(verifier, service.token()), ask(verifier, service.token())];
    await turn();
    const behind = ask(verifier, service.token());
    await turn();
    expect(pool.tasks.map(({ jobs }) => jobs)).toEqual([2, 1]);
    for (const task of pool.tasks) task.finish();
    await until(() => [...company, behind].every(({ calls }) => calls === 1), { what: 'all outcomes' });
  });
});
