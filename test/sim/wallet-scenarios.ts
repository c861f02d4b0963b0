import type { Chance } from './chance.ts';
import { type Course, elsewhereFrom } from './course.ts';
import type { Tree } from './course-wallets.ts';
import type { Step, WalletChange } from './plan.ts';
import { asksOf } from './scenarios.ts';

/** Numbers of requests that neither `plan.ts` nor `scenarios.ts` has. */
const requestsFrom = 700_000;
const requestsElsewhereFrom = 750_000;
/** A gate without limits: what is refused there, wallets have refused. */
const openGate = 4;

/** What happens to wallets, and requests that come with it. */
export function walletSteps(chance: Chance, course: Course, durationMs: number): Step[] {
  const { tree } = course;
  if (tree === null) return [];
  const steps: Step[] = [];
  const makers = makersOf(chance, course, tree).filter(() => chance.happens(0.4));
  const count = chance.pick([0, 2, 4, 8]);
  for (let n = 0; n < count && makers.length > 0; n++)
    steps.push({ ...chance.pick(makers)(), atMs: chance.between(0.05, 0.85) * durationMs });
  if (course.elsewhere !== null) steps.push(...elsewhereSteps(chance, course, durationMs));
  if (chance.happens(0.6)) steps.push(...chance.pick(walletScenarios)(chance, course, tree, durationMs));
  return steps;
}

/** What is asked of a sidecar of another account, beside the others, and what happens to it. */
function elsewhereSteps(chance: Chance, course: Course, durationMs: number): Step[] {
  const sidecar = course.sidecars;
  const asks = asksOf(chance, course, requestsElsewhereFrom);
  const atMs = chance.between(0.1, 0.7) * durationMs;
  const at = { sidecar, amountUsd: chance.pick([0.25, 1, 2.5]) };
  const forMs = chance.pick([300, 1_000, 3_000]);
  const troubles: readonly Step[] = [
    { kind: 'crash', sidecar, forMs: 300, atMs },
    { kind: 'pause', sidecar, forMs, atMs },
    { kind: 'clock', sidecar, jumpMs: chance.pick([-70_000, 5_000, 90_000_000]), atMs },
    { kind: 'cut', sidecar, how: chance.pick(['silent', 'refused', 'answers lost']), forMs: 2 * forMs, atMs },
    { kind: 'cut power', sidecar, forMs: 300, atMs },
  ];
  return [
    ...asks.many(chance.pick([8, 20]), 400, durationMs, { ...at, gate: elsewhereFrom }),
    ...asks.many(6, 400, durationMs, { ...at, gate: elsewhereFrom + 1, isKeyed: true }),
    ...asks.many(6, 400, durationMs, { ...at, gate: elsewhereFrom, amountUsd: 0.5, isHeld: true }),
    // All of it is wanted at once, here and there.
    ...asks.many(20, atMs - 300, atMs + 900, { ...at, gate: elsewhereFrom }),
    ...asks.many(20, atMs - 300, atMs + 900, { gate: openGate, amountUsd: at.amountUsd }),
    ...troubles.filter(() => chance.happens(0.3)),
  ];
}

function makersOf(chance: Chance, { passports }: Course, tree: Tree): (() => WalletChange)[] {
  const wallet = (): number => chance.below(tree.wallets.length);
  return [
    () => ({ kind: 'freeze', wallet: wallet() }),
    () => ({ kind: 'unfreeze', wallet: wallet() }),
    () => ({ kind: 'unfreeze', wallet: wallet() }),
    () => ({ kind: 'scale wallet', wallet: wallet(), factor: chance.pick([0.25, 0.5, 1.5, 2]) }),
    () => ({ kind: 'share wallet', wallet: wallet(), share: chance.pick(['pot', 'reserved']) }),
    () => ({ kind: 'move wallet', wallet: wallet(), below: chance.happens(0.2) ? null : wallet() }),
    () => ({
      kind: 'move',
      passport: chance.below(passports.length),
      wallet: chance.happens(0.2) ? null : wallet(),
    }),
  ];
}

type Scenario = (chance: Chance, course: Course, tree: Tree, durationMs: number) => Step[];

const walletScenarios: readonly Scenario[] = [
  /** All of it is wanted at once, by all sidecars. */
  (chance, course, _tree, durationMs) => {
    const atMs = chance.between(0.1, 0.6) * durationMs;
    return asksOf(chance, course, requestsFrom).many(60, atMs, atMs + 1_500, {
      ...{ gate: openGate, amountUsd: chance.pick([1, 2.5, 3.1]) },
    });
  },
  /** A root is frozen under its passports, and thawed again. */
  (chance, course, tree, durationMs) => {
    const atMs = chance.between(0.2, 0.6) * durationMs;
    const asks = asksOf(chance, course, requestsFrom);
    const wallet = chance.happens(0.7) ? 0 : chance.below(tree.wallets.length);
    const cheap = { gate: openGate, amountUsd: 0.01 };
    return [
      ...asks.many(12, atMs - 500, atMs, cheap),
      { kind: 'freeze', wallet, atMs },
      ...asks.many(24, atMs, atMs + 4_000, cheap),
      { kind: 'unfreeze', wallet, atMs: atMs + 4_100 },
    ];
  },
  /** Passports change their wallets while they spend. */
  (chance, course, tree, durationMs) => {
    const atMs = chance.between(0.1, 0.4) * durationMs;
    const asks = asksOf(chance, course, requestsFrom);
    const moves = [0, 900, 1_800].flatMap((afterMs) =>
      course.passports.map(
        (_each, passport): Step => ({
          kind: 'move',
          passport,
          wallet: chance.below(tree.wallets.length),
          atMs: atMs + afterMs + chance.between(0, 200),
        }),
      ),
    );
    return [...moves, ...asks.many(60, atMs - 300, atMs + 3_500, { gate: openGate, amountUsd: 0.25 })];
  },
  /** A passport is moved once, and a sidecar that has units for it hears nothing of that. */
  (chance, course, tree, durationMs) => {
    const atMs = chance.between(0.2, 0.5) * durationMs;
    const asks = asksOf(chance, course, requestsFrom);
    const sidecar = chance.below(course.sidecars);
    const passport = chance.below(course.passports.length);
    const cheap = { sidecar, passport, gate: openGate, amountUsd: 0.25 };
    return [
      ...asks.many(8, atMs - 600, atMs, cheap),
      { kind: 'cut', sidecar, how: chance.pick(['silent', 'refused']), forMs: 2_500, atMs },
      { kind: 'move', passport, wallet: chance.below(tree.wallets.length), atMs: atMs + 20 },
      ...asks.many(10, atMs + 30, atMs + 2_000, cheap),
    ];
  },
  /** Wallets change their parents under those who spend. */
  (chance, course, tree, durationMs) => {
    const atMs = chance.between(0.1, 0.4) * durationMs;
    const asks = asksOf(chance, course, requestsFrom);
    const wallet = (): number => chance.below(tree.wallets.length);
    const moves = Array.from(
      { length: 6 },
      (_each, n): Step => ({
        kind: 'move wallet',
        wallet: wallet(),
        below: chance.happens(0.3) ? null : wallet(),
        atMs: atMs + 500 * n,
      }),
    );
    return [...moves, ...asks.many(60, atMs - 300, atMs + 3_500, { gate: openGate, amountUsd: 0.25 })];
  },
  /** Limits go down while all is lent, and what is lent comes back. */
  (chance, course, tree, durationMs) => {
    const atMs = chance.between(0.2, 0.5) * durationMs;
    const asks = asksOf(chance, course, requestsFrom);
    return [
      ...asks.many(30, atMs - 400, atMs + 100, { gate: openGate, amountUsd: 0.25 }),
      ...tree.wallets.map((_each, wallet): Step => ({ kind: 'scale wallet', wallet, factor: 0.25, atMs })),
      ...asks.many(30, atMs + 200, atMs + 3_000, { gate: openGate, amountUsd: 1 }),
    ];
  },
];
