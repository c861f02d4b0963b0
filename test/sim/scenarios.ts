import type { Chance } from './chance.ts';
import type { Course } from './course.ts';
import type { Ask, Step } from './plan.ts';

type Scenario = (chance: Chance, course: Course, durationMs: number) => Step[];

/** Faults and requests that matter together, and would hardly come together by chance. */
export const scenarios: readonly Scenario[] = [
  /** Killed right after it learned of a revocation, beside a control plane that is away afterwards. */
  (chance, course, durationMs) => {
    const atMs = chance.between(0.2, 0.6) * durationMs;
    const sidecar = chance.below(course.sidecars);
    const killedAtMs = atMs + chance.between(1, 900);
    const passport = chance.below(course.passports.length);
    const asks = asksOf(chance, course);
    return [
      { kind: 'disk', sidecar, how: 'slower', forMs: 1_500, atMs: atMs - 100 },
      { kind: 'standing', passport, standing: 'revoked', atMs },
      { kind: 'crash', sidecar, forMs: 100, atMs: killedAtMs },
      { kind: 'cut', sidecar, how: 'refused', forMs: 3_000, atMs: killedAtMs },
      ...asks.many(12, killedAtMs + 150, killedAtMs + 2_900, {
        ...{ sidecar, passport, gate: 4, amountUsd: null },
      }),
    ];
  },
  /** Stopped while a passport is revoked. */
  (chance, course, durationMs) => {
    const atMs = chance.between(0.2, 0.6) * durationMs;
    const sidecar = chance.below(course.sidecars);
    const passport = chance.below(course.passports.length);
    const asks = asksOf(chance, course);
    return [
      { kind: 'pause', sidecar, forMs: 2_500, atMs },
      { kind: 'standing', passport, standing: 'revoked', atMs: atMs + 200 },
      ...asks.many(4, atMs - 800, atMs + 400, { sidecar, passport, gate: 4, amountUsd: null }),
      ...asks.many(4, atMs + 2_500, atMs + 2_504, { sidecar, passport, gate: 4, amountUsd: null }),
    ];
  },
  /** The power goes, and comes back, while limits are nearly used up. */
  (chance, course, durationMs) => {
    const atMs = chance.between(0.3, 0.8) * durationMs;
    return Array.from({ length: course.sidecars }, (_each, sidecar) => ({
      kind: 'cut power' as const,
      sidecar,
      forMs: 100,
      atMs: atMs + sidecar,
    }));
  },
  /** Passports are revoked while calls that were carried out fail: a repetition is answered otherwise. */
  (chance, course, durationMs) => {
    const atMs = chance.between(0.2, 0.6) * durationMs;
    return [
      { kind: 'control plane fails', fails: 0.5, forMs: 3_000, atMs },
      ...course.passports.map((_each, passport) => ({
        kind: 'standing' as const,
        passport,
        standing: chance.pick(['revoked', 'suspended'] as const),
        atMs: atMs + chance.between(300, 2_500),
      })),
    ];
  },
  /** Away for longer than any trust level but the lowest allows, with units in hand. */
  (chance, course, durationMs) => {
    const atMs = chance.between(0.1, 0.2) * durationMs;
    const sidecar = chance.below(course.sidecars);
    const asks = asksOf(chance, course);
    const cheap = { sidecar, gate: 2, amountUsd: 0.01 };
    return [
      ...asks.many(20, atMs - 600, atMs - 10, cheap),
      { kind: 'cut', sidecar, how: chance.pick(['silent', 'refused']), forMs: 9_000, atMs },
      ...asks.many(10, atMs + 4_900, atMs + 6_000, cheap),
    ];
  },
  /** A window ends while settlements of it are under way, and its limit is used up right after. */
  (chance, course, durationMs) => {
    const { turnsAfterMs: turnMs } = course;
    if (turnMs > 0.8 * durationMs) return [];
    const asks = asksOf(chance, course);
    const dear = { gate: chance.pick([0, 2, 3]), amountUsd: chance.pick([1, 1.99]) };
    return [
      { kind: 'weather', how: 'slow', forMs: 700, atMs: turnMs - 650 },
      ...asks.many(20, turnMs - 900, turnMs - 600, dear),
      ...asks.many(8, turnMs - 300, turnMs - 5, { ...dear, isKeyed: true }).flatMap(asks.copies),
      ...asks.many(60, turnMs + 20, turnMs + 2_500, dear),
    ];
  },
  /** Its folder is unlinked while it can ship nothing, and it is killed after it had the time to notice. */
  (chance, course, durationMs) => {
    const atMs = chance.between(0.1, 0.5) * durationMs;
    const sidecar = chance.below(course.sidecars);
    const asks = asksOf(chance, course);
    return [
      { kind: 'cut', sidecar, how: 'refused', forMs: 4_000, atMs: atMs - 5 },
      { kind: 'unlink', sidecar, forMs: 0, atMs },
      ...asks.many(20, atMs + 1_200, atMs + 2_500, { gate: 4, sidecar, amountUsd: null }),
      { kind: 'crash', sidecar, forMs: 100, atMs: atMs + 2_550 },
    ];
  },
  /** Writes fail in part, and it is killed before it can ship what it wrote afterwards. */
  (chance, course, durationMs) => {
    const atMs = chance.between(0.1, 0.5) * durationMs;
    const sidecar = chance.below(course.sidecars);
    const asks = asksOf(chance, course);
    const bursts = [100, 400, 700, 1_000].flatMap((afterMs) =>
      asks.many(6, atMs + afterMs, atMs + afterMs, { gate: 4, sidecar, amountUsd: null }),
    );
    return [
      { kind: 'cut', sidecar, how: 'refused', forMs: 4_000, atMs },
      { kind: 'disk', sidecar, how: chance.pick(['fails', 'full']), forMs: 900, atMs: atMs + 50 },
      ...bursts,
      ...asks.many(12, atMs + 1_000, atMs + 2_400, { gate: 4, sidecar, amountUsd: null }),
      { kind: 'crash', sidecar, forMs: 100, atMs: atMs + 2_500 },
    ];
  },
  /** The power goes before the disk has what was answered, and nothing was shipped. */
  (chance, course, durationMs) => {
    const atMs = chance.between(0.2, 0.7) * durationMs;
    const sidecar = chance.below(course.sidecars);
    return [
      { kind: 'cut', sidecar, how: 'refused', forMs: 900, atMs },
      { kind: 'disk', sidecar, how: 'sync lies', forMs: 900, atMs },
      ...asksOf(chance, course).many(20, atMs + 50, atMs + 480, { gate: 4, sidecar, amountUsd: null }),
      { kind: 'cut power', sidecar, forMs: 100, atMs: atMs + 500 },
    ];
  },
  /** Copies are settled and read, and nobody hears of it; perhaps the voids cannot be written either. */
  (chance, course, durationMs) => {
    const atMs = chance.between(0.1, 0.2) * durationMs;
    const asks = asksOf(chance, course);
    const isFull = chance.happens(0.5);
    return [
      ...everySidecar(course).flatMap((sidecar): Step[] => [
        { kind: 'cut', sidecar, how: 'answers lost', forMs: durationMs, atMs },
        ...(isFull ? [{ kind: 'disk', sidecar, how: 'full', forMs: 2_500, atMs: atMs + 400 } as const] : []),
      ]),
      ...asks
        .many(8, atMs + 5, atMs + 60, { isKeyed: true, gate: chance.pick([0, 2, 4]), amountUsd: 0.25 })
        .flatMap(asks.copies),
    ];
  },
  /** What is refused becomes possible, and a proxy delivers it once more. */
  (chance, course, durationMs) => {
    const atMs = chance.between(0.15, 0.4) * durationMs;
    const asks = asksOf(chance, course);
    const flips = [0, 1_300, 2_600].flatMap((afterMs) =>
      course.passports.flatMap((_each, passport): Step[] => {
        const suspendedAtMs = atMs + afterMs + chance.between(0, 200);
        return [
          { kind: 'standing', passport, standing: 'suspended', atMs: suspendedAtMs },
          ...asks.many(4, suspendedAtMs - 15, suspendedAtMs + 10, {
            ...{ passport, isKeyed: true, gate: chance.pick([0, 2, 4]), amountUsd: 0.25 },
          }),
          { kind: 'standing', passport, standing: 'active', atMs: suspendedAtMs + chance.between(40, 600) },
        ];
      }),
    );
    return [
      { kind: 'upgrade', release: 'before', atMs: atMs - 100 },
      { kind: 'weather', how: 'doubling', forMs: 4_000, atMs: atMs - 50 },
      ...flips,
    ];
  },
  /** Copies of a request come after its approval was used. */
  (chance, course, durationMs) => {
    const asks = asksOf(chance, course);
    return asks
      .many(3, 0.1 * durationMs, 0.2 * durationMs, { gate: 3, isKeyed: true, amountUsd: 2.5 })
      .flatMap((ask) =>
        [0, 2_500, 4_000, 5_000].map((ms) => ({ ...asks.elsewhere(ask), atMs: ask.atMs + ms })),
      );
  },
  /** Clients go while the control plane settles for them. */
  (chance, course, durationMs) => {
    const atMs = chance.between(0.1, 0.5) * durationMs;
    const asks = asksOf(chance, course).many(25, atMs, atMs + 1_500, {
      ...{ gate: chance.pick([0, 2, 4]), isKeyed: true, amountUsd: 0.25 },
    });
    return [
      { kind: 'weather', how: 'slow', forMs: 1_500, atMs },
      ...asks.map((ask) => ({ ...ask, abortsAfterMs: chance.between(0, 800) })),
    ];
  },
  /** A change is lost on its way, and the next one arrives. */
  (chance, course, durationMs) => {
    const atMs = chance.between(0.2, 0.6) * durationMs;
    return [
      { kind: 'weather', how: 'lossy', forMs: 1_500, atMs: atMs - 20 },
      ...course.passports.map((_each, passport) => ({
        kind: 'standing' as const,
        passport,
        standing: chance.pick(['revoked', 'suspended'] as const),
        atMs: atMs + 30 * passport,
      })),
      ...asksOf(chance, course).many(30, atMs + 100, atMs + 1_500, {
        gate: chance.pick([0, 4]),
        amountUsd: null,
      }),
    ];
  },
  /** Its disk, and so its thread that verifies, takes longer than a client waits. */
  (chance, course, durationMs) => {
    const atMs = chance.between(0.1, 0.4) * durationMs;
    const sidecar = chance.below(course.sidecars);
    return [
      { kind: 'crash', sidecar, forMs: 50, atMs: atMs - 400 },
      { kind: 'disk', sidecar, how: 'slow', forMs: 4_000, atMs },
      ...asksOf(chance, course).many(12, atMs + 10, atMs + 3_000, { sidecar }),
    ];
  },
];

const everySidecar = (course: Course): number[] => Array.from({ length: course.sidecars }, (_each, n) => n);

/** Numbers of requests that `plan.ts` does not have. */
const requestsFrom = 500_000;

export function asksOf(chance: Chance, course: Course, firstRequest = requestsFrom) {
  let request = firstRequest;
  const elsewhere = (ask: Ask): Ask => ({ ...ask, sidecar: chance.below(course.sidecars) });
  return {
    /** Requests of their own, spread over that time. What is not given is drawn for each. */
    many: (count: number, fromMs: number, toMs: number, given: Partial<Omit<Ask, 'kind'>>): Ask[] =>
      Array.from({ length: count }, () => ({
        kind: 'ask',
        request: request++,
        sidecar: chance.below(course.sidecars),
        gate: chance.below(course.gates.length),
        passport: chance.below(course.passports.length),
        amountUsd: 0.25,
        isKeyed: false,
        abortsAfterMs: null,
        permission: 'orders:create',
        isHeld: false,
        atMs: chance.between(fromMs, toMs),
        ...given,
      })),
    elsewhere,
    /** The request, and one or two copies of it soon after. */
    copies: (ask: Ask): Ask[] => [
      ask,
      ...Array.from({ length: 1 + chance.below(2) }, () => ({
        ...elsewhere(ask),
        atMs: ask.atMs + chance.between(0, 20),
      })),
    ],
  };
}
