import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { runs } from '../support/base/runs.ts';
import { RunWorld, type WorldEvent, type WorldSpec } from './run-world.ts';

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
} as const satisfies WorldSpec;

/** Worlds with few orders of events, so that each of them comes up often. */
const anySmallWorld = fc.constantFrom<WorldSpec>(
  smallWorld,
  { ...smallWorld, copies: [copy, copy] },
  { ...smallWorld, copies: [copy, { ...copy, sidecar: 1 }] },
  { ...smallWorld, limit: 2, copies: [copy, { ...copy, sidecar: 1 }] },
  { ...smallWorld, approval: 'approved', copies: [{ ...copy, presents: true }] },
  { ...smallWorld, suspends: true, copies: [copy, { ...copy, sidecar: 1 }] },
  {
    ...smallWorld,
    limit: 2,
    suspends: true,
    approval: 'approved',
    copies: [copy, { ...copy, sidecar: 1, presents: true }],
  },
);
const worlds = fc.oneof(anyWorld, anySmallWorld);

/** Copies of one request at one sidecar, where nothing fails. */
const quietWorld: WorldSpec = { ...smallWorld, copies: [copy, copy, copy], faults: 0 };

/** The same at two sidecars. */
const quietWorlds: WorldSpec[] = [
  { ...quietWorld, copies: [copy, { ...copy, sidecar: 1 }, copy, { ...copy, sidecar: 1 }] },
  { ...quietWorld, limit: 2, copies: [copy, { ...copy, sidecar: 1 }, { ...copy, sidecar: 1 }] },
];

const choices = fc.array(fc.nat({ max: 10_000 }), { minLength: 20, maxLength: 60 });

type NextEvent = (events: readonly WorldEvent[]) => WorldEvent | undefined;

/** Lets happen what is chosen, then what happens by itself. Checks after each step. */
function play(spec: WorldSpec, chosen: readonly NextEvent[]): RunWorld {
  const world = new RunWorld(spec);
  const history: string[] = [];
  const step = (event: WorldEvent | undefined) => {
    if (event === undefined) return;
    history.push(event.name);
    event.happen();
    world.check();
  };
  try {
    for (const next of chosen) step(next(world.events()));
    for (let due = nextDue(world); due !== undefined; due = nextDue(world)) {
      if (history.length === 1_000) throw new Error('a world comes to an end');
      step(due);
    }
    world.checkEnd();
    return world;
  } catch (error) {
    throw new Error(`${error}\nafter: ${history.join('\n       ')}`, { cause: error });
  }
}

const nextDue = (world: RunWorld) => world.events().find(({ isDue }) => isDue);

/** Mostly what happens by itself, so that also long stories with few faults come up. */
const byNumber =
  (choice: number): NextEvent =>
  (all) => {
    const due = all.filter(({ isDue }) => isDue);
    const events = choice % 3 === 0 || due.length === 0 ? all : due;
    return events[Math.floor(choice / 3) % Math.max(1, events.length)];
  };

/** Nothing happens but what happens by itself. */
const dueByNumber =
  (choice: number): NextEvent =>
  (all) => {
    const due = all.filter(({ isDue }) => isDue);
    return due[choice % Math.max(1, due.length)];
  };

/** Throws unless every copy was answered with the same PERMIT, and none of them had to ask once more. */
function playQuietly(chosen: readonly number[]): void {
  const copies = expectOneAnswer(quietWorld, chosen, 'PERMIT');
  expect(copies.map(({ waits }) => waits)).toEqual(copies.map(() => 0));
}

function expectOneAnswer(
  spec: WorldSpec,
  chosen: readonly number[],
  kind: 'PERMIT' | 'SUSPEND',
): RunWorld['copies'] {
  const { copies } = play(spec, chosen.map(dueByNumber));
  const told = copies.map((each) => each.told);
  expect(told).toEqual(copies.map(() => told[0]));
  expect(told[0]?.kind).toBe(kind);
  return copies;
}

/** What random worlds hardly ever get to: a call comes again when all that it had found is over. */
const comesAgain: readonly { promise: string; spec: WorldSpec; story: readonly string[] }[] = [
  {
    promise: 'keeps nothing of a copy whose client went away, as that of the first PERMIT did',
    spec: { ...smallWorld, limit: 2, copies: [copy, { ...copy, sidecar: 1 }], faults: 3 },
    story: [
      ...['copy0 comes', 'copy0 gets leases', 'copy0 sends', 'request 1 of copy0 arrives'],
      ...['copy1 comes', 'copy1 gets leases', 'copy1 sends', 'request 1 of copy1 is delivered twice'],
      ...['request 1 of copy1 arrives', 'the client of copy1 goes', 'answer 1 of copy1 arrives'],
      ...['the client of copy0 goes', 'answer 1 of copy0 arrives'],
      ...['sidecar1 ships a void', 'sidecar0 ships a void', 'request 0 of copy1 arrives'],
    ],
  },
  {
    promise: 'opens no second approval after that of another copy has expired',
    spec: { ...smallWorld, limit: 2, copies: [copy, { ...copy, sidecar: 1 }], suspends: true },
    story: [
      ...['copy0 comes', 'copy0 gets leases', 'copy0 sends'],
      ...['request 1 of copy0 arrives', 'answer 1 of copy0 arrives'],
      ...['copy1 comes', 'copy1 gets leases', 'copy1 sends', 'request 1 of copy1 is delivered twice'],
      ...['request 1 of copy1 arrives', 'answer 1 of copy1 arrives'],
      ...['appr of copy0 1 expires', 'request 0 of copy1 arrives'],
    ],
  },
  {
    promise: 'keeps nothing true of a copy whose client went away, of which no other was told',
    spec: {
      ...smallWorld,
      limit: 2,
      copies: [copy, { ...copy, sidecar: 1, presents: true }],
      suspends: true,
      approval: 'approved',
    },
    story: [
      ...['copy1 comes', 'copy1 sends', 'request 1 of copy1 arrives', 'request 1 of copy1 arrives'],
      ...['answer 1 of copy1 arrives', 'copy1 sends'],
      ...['copy0 comes', 'copy0 gets leases', 'copy0 sends', 'request 1 of copy0 is delivered twice'],
      ...['request 1 of copy0 arrives', 'answer 1 of copy0 arrives', 'request 1 of copy1 arrives'],
      ...['the client of copy1 goes', 'request 0 of copy0 arrives', 'answer 1 of copy1 arrives'],
      ...['sidecar1 ships a void'],
    ],
  },
];

describe('a run keeps its promises', () => {
  it.each(comesAgain)('where a call comes again: $promise', ({ spec, story }) => {
    tell(spec, story);
  });

  it('in random worlds', () => {
    fc.assert(
      fc.property(worlds, choices, (spec, chosen) => void play(spec, chosen.map(byNumber))),
      { numRuns: runs({ short: 200, long: 300_000 }) },
    );
  });

  it('and answers all copies at one sidecar with one PERMIT, in any order, where nothing fails', () => {
    fc.assert(
      fc.property(choices, (chosen) => playQuietly(chosen)),
      { numRuns: runs({ short: 100, long: 100_000 }) },
    );
  });
});

it.each(['PERMIT', 'SUSPEND'] as const)(
  'copies at two sidecars, in any order, where nothing fails, are all answered one %s',
  (kind) => {
    const anyQuiet = fc.constantFrom(...quietWorlds);
    fc.assert(
      fc.property(anyQuiet, choices, (spec, chosen) => {
        expectOneAnswer({ ...spec, suspends: kind === 'SUSPEND' }, chosen, kind);
      }),
      { numRuns: runs({ short: 200, long: 100_000 }) },
    );
  },
);

/** Events by their names, each of which can happen when its turn comes. */
const tell = (spec: WorldSpec, story: readonly string[]): void => {
  const chosen = story.map(
    (wanted): NextEvent =>
      (all) => {
        const event = all.find(({ name }) => name === wanted);
        expect(event, wanted).toBeDefined();
        return event;
      },
  );
  play(spec, chosen);
};
