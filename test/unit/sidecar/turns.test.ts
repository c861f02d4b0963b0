import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { limits } from '../../../shared/model/limits.ts';
import { intakeLimits } from '../../../sidecar/intake/limits.ts';
import { type TurnBudget, Turns, type Worker } from '../../../sidecar/intake/turns.ts';

const whole = intakeLimits.checksPerTurnMax;

/** Takes so many checks a step until it has done all; says what it was given. */
class Takes implements Worker {
  isQueued = false;
  readonly done: number[] = [];
  readonly #each: number;
  #left: number;

  constructor(left: number, each: number) {
    this.#left = left;
    this.#each = each;
  }

  step(budget: TurnBudget): boolean {
    const taken = Math.min(this.#each, this.#left, budget.checks);
    budget.checks -= taken;
    this.#left -= taken;
    this.done.push(taken);
    return this.#left > 0;
  }

  get total(): number {
    return this.done.reduce((sum, taken) => sum + taken, 0);
  }
}

describe('turns', () => {
  it('give each a step in turn, and all together no more than a turn may decide', async () => {
    const turns = new Turns();
    const all = [new Takes(1_000, 8), new Takes(1_000, 8), new Takes(1_000, 8)];
    for (const each of all) turns.wants(each);
    await nextTurn();
    expect(all.map(({ total }) => total)).toEqual([16, 8, 8]);
    await nextTurn();
    // The one that came first has had its step: the others are before it.
    expect(all.map(({ total }) => total)).toEqual([24, 24, 16]);
  });

  it('take a worker in once, however often it wants to', async () => {
    const turns = new Turns();
    const one = new Takes(1, 1);
    for (let n = 0; n < 5; n++) turns.wants(one);
    for (let turn = 0; turn < 3; turn++) await nextTurn();
    expect(one.done).toEqual([1]);
  });

  it('end with the bytes of one body', async () => {
    const turns = new Turns();
    const large: number[] = [];
    const reads = (n: number): Worker => ({
      isQueued: false,
      step: (budget) => {
        large.push(n);
        budget.bytes -= limits.bodyBytesMax;
        return false;
      },
    });
    for (let n = 0; n < 3; n++) turns.wants(reads(n));
    await nextTurn();
    expect(large).toEqual([0]);
    while (large.length < 3) await nextTurn();
    expect(large).toEqual([0, 1, 2]);
  });

  it('begin at once while none waits and the turn is not used up, and again in the next one', async () => {
    const turns = new Turns();
    const first = new Takes(whole, whole);
    expect(turns.tryNow(first)).toBe(true);
    expect(first.total).toBe(whole);
    const second = new Takes(1, 1);
    expect([turns.tryNow(second), second.total]).toEqual([false, 0]);
    await nextTurn();
    expect([turns.tryNow(second), second.total]).toEqual([true, 1]);
  });

  it('never begin at once before waiting ones', async () => {
    const turns = new Turns();
    turns.wants(new Takes(1, 1));
    expect(turns.tryNow(new Takes(1, 1))).toBe(false);
    await nextTurn();
    expect(turns.tryNow(new Takes(1, 1))).toBe(true);
  });
});
