import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Mutant, mutants } from './run-ledger.ts';
import { RunWorld, type WorldSpec } from './run-world.ts';

const anyCopy = fc.record({
  sidecar: fc.nat({ max: 1 }),
  key: fc.option(fc.constantFrom('k', 'k', 'other'), { nil: null, freq: 5 }),
  hash: fc.constantFrom('h', 'h', 'h', 'i'),
});

const anyWorld = fc
  .record({
    limit: fc.integer({ min: 1, max: 2 }),
    sidecars: fc.constant(2),
    copies: fc.array(anyCopy, { minLength: 2, maxLength: 5 }),
    presents: fc.boolean(),
    suspends: fc.boolean(),
    approval: fc.constantFrom('pending', 'approved', null),
    faults: fc.nat({ max: 4 }),
  })
  .map(
    ({ copies, presents, approval, ...rest }): WorldSpec => ({
      ...rest,
      approval: presents ? approval : null,
      copies: copies.map((copy) => ({
        ...copy,
        // An approval belongs to one request.
        hash: presents ? 'h' : copy.hash,
        presents: presents && approval !== null,
      })),
      mutant: null,
    }),
  );

const copy = { sidecar: 0, key: 'k', hash: 'h', presents: false } as const;
const smallWorld = {
  limit: 1,
  sidecars: 2,
  copies: [copy],
  suspends: false,
  approval: null,
  faults: 2,
  mutant: null,
} as const satisfies WorldSpec;

/** Worlds with few orders of events, so that each of them comes up often. */
const anySmallWorld = fc.constantFrom<WorldSpec>(
  smallWorld,
  { ...smallWorld, copies: [copy, copy] },
  { ...smallWorld, copies: [copy, { ...copy, sidecar: 1 }] },
  { ...smallWorld, limit: 2, copies: [copy, { ...copy, sidecar: 1 }] },
  { ...smallWorld, approval: 'approved', copies: [{ ...copy, presents: true }] },
  { ...smallWorld, suspends: true, copies: [copy, { ...copy, sidecar: 1 }] },
);
const worlds = fc.oneof(anyWorld, anySmallWorld);

const choices = fc.array(fc.nat({ max: 10_000 }), { minLength: 20, maxLength: 60 });

/** Plays the choices, then lets happen what happens by itself. Checks after each step. Returns what has happened. */
function play(spec: WorldSpec, chosen: readonly number[]): string[] {
  const world = new RunWorld(spec);
  const history: string[] = [];
  const step = (event: ReturnType<RunWorld['events']>[number]) => {
    history.push(event.name);
    event.happen();
    world.check();
  };
  try {
    for (const choice of chosen) {
      // Mostly what happens by itself, so that also long stories with few faults come up.
      const all = world.events();
      const due = all.filter(({ isDue }) => isDue);
      const events = choice % 3 === 0 || due.length === 0 ? all : due;
      const event = events[Math.floor(choice / 3) % Math.max(1, events.length)];
      if (event !== undefined) step(event);
    }
    finish(world, step);
    world.checkEnd();
  } catch (error) {
    throw new Error(`${error}\nafter: ${history.join('\n       ')}`, { cause: error });
  }
  return history;
}

function finish(world: RunWorld, step: (event: ReturnType<RunWorld['events']>[number]) => void): void {
  for (let steps = 0; ; steps++) {
    const due = world.events().find(({ isDue }) => isDue);
    if (due === undefined) return;
    if (steps === 1_000) throw new Error('a world comes to an end');
    step(due);
  }
}

describe('a run keeps its promises', () => {
  it('in random worlds', () => {
    fc.assert(
      fc.property(worlds, choices, (spec, chosen) => void play(spec, chosen)),
      { numRuns: 3_000 },
    );
  });
});

describe('the same promises are broken by a protocol that', () => {
  it.each(mutants)('%s', (mutant: Mutant) => {
    const found = fc.check(
      fc.property(worlds, choices, (spec, chosen) => void play({ ...spec, mutant }, chosen)),
      { numRuns: 200_000, endOnFailure: true },
    );
    expect(found.failed).toBe(true);
  });
});
