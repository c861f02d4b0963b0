import fc from 'fast-check';
import { afterEach, expect, it, vi } from 'vitest';
import { fairShare } from '../../control-plane/storage/fair-share.ts';
import { fakedClock, fakedTimers } from '../support/base/faked-timers.ts';
import { runs } from '../support/base/runs.ts';

const bounds = { atOnceMax: 3, perOwnerMax: 2, waitingPerOwnerMax: 4, waitMsMax: 50 };
const owners = ['a', 'b', 'c'];

/** Times are in steps of 10 ms, so that turns often come in the millisecond in which a wait ends. */
const tens = (max: number) => fc.integer({ min: 1, max }).map((steps) => steps * 10);
const ask = fc.record({
  kind: fc.constant('ask' as const),
  owner: fc.constantFrom(...owners),
  lastsMs: tens(12),
  fails: fc.boolean(),
  waitMsMax: fc.oneof(fc.constant(undefined), fc.constant(null), tens(7)),
});
const pass = fc.record({ kind: fc.constant('pass' as const), ms: tens(4) });
const history = fc.array(fc.oneof({ weight: 3, arbitrary: ask }, { weight: 1, arbitrary: pass }), {
  minLength: 20,
  maxLength: 80,
});

type Asked = {
  readonly owner: string;
  readonly atMs: number;
  readonly waitMs: number;
  readonly findsFull: boolean;
  state: 'waiting' | 'running' | 'over' | 'refused';
  atRefusalMs: number | null;
};

afterEach(() => {
  vi.useRealTimers();
});

it('gives each work one turn in time or refuses it then, and never loses a turn', async () => {
  let refusedLate = 0;
  await fc.assert(
    fc.asyncProperty(history, async (steps) => {
      vi.useFakeTimers({ toFake: [...fakedTimers] });
      const share = fairShare<string>(bounds);
      const all: Asked[] = [];
      const count = (state: Asked['state'], owner?: string) =>
        all.filter((each) => each.state === state && (owner === undefined || each.owner === owner)).length;

      const add = (owner: string, waitMsMax: number | null | undefined, work: () => Promise<void>): void => {
        const own = count('waiting', owner) + count('running', owner);
        const asked: Asked = {
          owner,
          atMs: fakedClock.monotonic(),
          waitMs: waitMsMax === undefined ? bounds.waitMsMax : (waitMsMax ?? Number.POSITIVE_INFINITY),
          findsFull: own >= bounds.perOwnerMax + bounds.waitingPerOwnerMax,
          state: 'waiting',
          atRefusalMs: null,
        };
        all.push(asked);
        const run = async (): Promise<void> => {
          expect(asked.state).toBe('waiting');
          expect(fakedClock.monotonic() - asked.atMs).toBeLessThanOrEqual(asked.waitMs);
          asked.state = 'running';
          try {
            await work();
          } finally {
            asked.state = 'over';
          }
        };
        share(owner, run, waitMsMax).catch((error: { code?: string; message: string }) => {
          if (error.code !== 'overloaded') expect(error.message).toBe('as planned');
          else {
            expect(asked.state).toBe('waiting');
            asked.state = 'refused';
            asked.atRefusalMs = fakedClock.monotonic();
          }
        });
      };
      const expectSound = (): void => {
        expect(count('running')).toBeLessThanOrEqual(bounds.atOnceMax);
        for (const owner of owners) {
          expect(count('running', owner)).toBeLessThanOrEqual(bounds.perOwnerMax);
          // None waits beside a place that it may have.
          if (count('waiting', owner) > 0 && count('running', owner) < bounds.perOwnerMax)
            expect(count('running')).toBe(bounds.atOnceMax);
        }
        for (const { state, findsFull, atMs, waitMs, atRefusalMs } of all) {
          if (findsFull) expect({ state, atRefusalMs }).toEqual({ state: 'refused', atRefusalMs: atMs });
          else if (state === 'refused') expect(atRefusalMs).toBe(atMs + waitMs);
          else if (state === 'waiting') expect(fakedClock.monotonic() - atMs).toBeLessThan(waitMs);
        }
      };

      for (const step of steps) {
        if (step.kind === 'ask') {
          add(step.owner, step.waitMsMax, () =>
            new Promise((resolve) => setTimeout(resolve, step.lastsMs)).then(() => {
              if (step.fails) throw new Error('as planned');
            }),
          );
          await vi.advanceTimersByTimeAsync(0);
        } else await vi.advanceTimersByTimeAsync(step.ms);
        expectSound();
      }
      await vi.advanceTimersByTimeAsync(steps.length * 120);
      expectSound();
      expect(count('waiting') + count('running')).toBe(0);
      expect(vi.getTimerCount()).toBe(0);
      refusedLate += all.filter(({ state, findsFull }) => state === 'refused' && !findsFull).length;
      // All places are free again.
      const begun: string[] = [];
      const last = ['x', 'y', 'z'].map((owner) =>
        share(owner, async () => {
          begun.push(owner);
          await new Promise((resolve) => setTimeout(resolve, 10));
        }),
      );
      await vi.advanceTimersByTimeAsync(0);
      expect(begun).toEqual(['x', 'y', 'z']);
      await vi.advanceTimersByTimeAsync(10);
      await Promise.all(last);
    }),
    { numRuns: runs({ short: 150, long: 10_000 }) },
  );
  expect(refusedLate).toBeGreaterThan(0);
});
