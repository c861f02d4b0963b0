import type { Chance } from './chance.ts';
import type { Course } from './course.ts';
import { standingSteps } from './course-standing.ts';
import { diskSteps } from './disk-scenarios.ts';
import { scenarios } from './scenarios.ts';
import { walletSteps } from './wallet-scenarios.ts';

/** What people do with wallets; each by its place in the course. */
export type WalletChange =
  | { readonly kind: 'freeze' | 'unfreeze'; readonly wallet: number }
  | { readonly kind: 'scale wallet'; readonly wallet: number; readonly factor: number }
  | { readonly kind: 'share wallet'; readonly wallet: number; readonly share: 'pot' | 'reserved' }
  /** With all below it; null: it is a root. */
  | { readonly kind: 'move wallet'; readonly wallet: number; readonly below: number | null }
  /** Null: out of any. */
  | { readonly kind: 'move'; readonly passport: number; readonly wallet: number | null };

/** What happens to a simulation from outside, at a moment of its time. */
export type Step = { readonly atMs: number } & (
  | {
      readonly kind: 'ask';
      readonly sidecar: number;
      readonly gate: number;
      readonly passport: number;
      readonly amountUsd: number | null;
      /** Requests of one number are copies, under one idempotency key if they have one. */
      readonly request: number;
      readonly isKeyed: boolean;
      /** The client gives up; null: it waits. */
      readonly abortsAfterMs: number | null;
      readonly permission: string;
      /** Its money is settled later, by an outcome or by the end of its time. */
      readonly isHeld: boolean;
    }
  | {
      readonly kind: 'crash' | 'cut power' | 'stop' | 'unlink';
      readonly sidecar: number;
      readonly forMs: number;
    }
  | { readonly kind: 'pause'; readonly sidecar: number; readonly forMs: number }
  | {
      readonly kind: 'cut';
      readonly sidecar: number;
      readonly how: 'silent' | 'refused' | 'answers lost';
      readonly forMs: number;
    }
  | {
      readonly kind: 'weather';
      readonly how: 'lossy' | 'repeating' | 'doubling' | 'slow';
      readonly forMs: number;
    }
  | {
      readonly kind: 'disk';
      readonly sidecar: number;
      readonly how: 'fails' | 'writes fail' | 'full' | 'sync fails' | 'sync lies' | 'slow' | 'slower';
      readonly forMs: number;
    }
  | { readonly kind: 'clock'; readonly sidecar: number; readonly jumpMs: number }
  | { readonly kind: 'crash replica' | 'pause replica'; readonly replica: number; readonly forMs: number }
  | { readonly kind: 'bus down'; readonly forMs: number }
  | { readonly kind: 'control plane fails'; readonly fails: number; readonly forMs: number }
  | { readonly kind: 'upgrade'; readonly release: 'this' | 'before' | 'after' }
  | {
      readonly kind: 'standing';
      readonly passport: number;
      readonly standing: 'active' | 'suspended' | 'revoked';
    }
  | { readonly kind: 'change gate'; readonly gate: number; readonly factor: number }
  | WalletChange
  | { readonly kind: 'end standing'; readonly standing: number }
);

export type Ask = Extract<Step, { readonly kind: 'ask' }>;
export type Fault = Exclude<Step, Ask>;

export const isFault = (step: Step): step is Fault => step.kind !== 'ask';

const amounts = [0.01, 0.25, 0.37, 1, 1.99, 2.5, 3.1];

/**
 * All that happens in a simulation, in the order of time. Follows from the chances and the course alone.
 * `ofWallets` draws what happens to wallets, `ofStanding` to standing approvals, `ofDisks` to disks.
 */
export function makePlan(
  chance: Chance,
  { ofWallets, ofStanding, ofDisks }: Readonly<Record<'ofWallets' | 'ofStanding' | 'ofDisks', Chance>>,
  course: Course,
  durationMs: number,
): Step[] {
  const steps: Step[] = [...asks(chance, course, durationMs), ...faults(chance, course, durationMs)];
  if (chance.happens(0.35)) steps.push(...chance.pick(scenarios)(chance, course, durationMs));
  steps.push(...walletSteps(ofWallets, course, durationMs));
  steps.push(...standingSteps(ofStanding, course, durationMs));
  steps.push(...diskSteps(ofDisks, course, durationMs));
  return steps.sort((one, other) => one.atMs - other.atMs);
}

function asks(chance: Chance, course: Course, durationMs: number): Step[] {
  const steps: Step[] = [];
  const perSecond = chance.pick([4, 8, 20]);
  let request = 0;
  for (let atMs = 300; atMs < durationMs; atMs += chance.between(0, 2_000 / perSecond)) {
    const gate = chance.happens(0.02) ? course.gates.length : chance.below(course.gates.length);
    const passport = chance.below(course.passports.length);
    const isPriced = course.gates[gate]?.costs === true || course.passports[passport]?.costs === true;
    const costs = isPriced ? !chance.happens(0.02) : chance.happens(0.3);
    const ask = {
      kind: 'ask',
      gate,
      passport,
      amountUsd: costs ? chance.pick(amounts) : null,
      request: request++,
      isKeyed: chance.happens(0.3),
      permission: chance.happens(0.02) ? 'orders:delete' : 'orders:create',
    } as const;
    // Above 2 dollars a gate asks for an approval, whose money is held anyway.
    const isHeld = costs && chance.happens(0.4) && (ask.amountUsd ?? 9) < 2 && gate < course.gates.length;
    const copies = ask.isKeyed && chance.happens(0.5) ? 1 + chance.below(3) : 1;
    for (let copy = 0; copy < copies; copy++) {
      steps.push({
        ...ask,
        isHeld,
        sidecar: chance.below(course.sidecars),
        atMs: atMs + (copy === 0 ? 0 : chance.pick([0, 1, 5, 40, 400, 3_000]) * chance.fraction()),
        abortsAfterMs: chance.happens(0.05) ? chance.between(0, 50) : null,
      });
    }
    // A burst, as of a program that starts.
    if (chance.happens(0.01)) {
      for (let n = 0; n < 20; n++)
        steps.push({
          ...ask,
          isHeld,
          request: request++,
          isKeyed: false,
          sidecar: chance.below(course.sidecars),
          atMs,
          abortsAfterMs: null,
        });
    }
  }
  return steps;
}

/** Kinds are switched on one by one, so that some seeds have one of them alone and some have all. */
function faults(chance: Chance, course: Course, durationMs: number): Fault[] {
  const makers = makersOf(chance, course).filter(() => chance.happens(0.3));
  const count = chance.pick([0, 2, 4, 8]);
  const steps: Fault[] = [];
  for (let n = 0; n < count && makers.length > 0; n++)
    steps.push({ ...chance.pick(makers)(), atMs: chance.between(0.05, 0.85) * durationMs } as Fault);
  return steps;
}

type Happening = Fault extends infer Each ? Omit<Each, 'atMs'> : never;

function makersOf(chance: Chance, course: Course): (() => Happening)[] {
  const sidecar = () => chance.below(course.sidecars);
  const forMs = (most: number) =>
    chance.pick([50, 300, 1_000, 3_000].filter((ms) => ms <= most)) * chance.between(0.5, 2);
  const short = () => forMs(3_000);
  return [
    () => ({ kind: 'crash', sidecar: sidecar(), forMs: forMs(1_000) }) as Happening,
    () => ({ kind: 'crash', sidecar: sidecar(), forMs: forMs(300) }) as Happening,
    () => ({ kind: 'cut power', sidecar: sidecar(), forMs: forMs(1_000) }) as Happening,
    () => ({ kind: 'stop', sidecar: sidecar(), forMs: forMs(1_000) }) as Happening,
    () => ({ kind: 'unlink', sidecar: sidecar(), forMs: 0 }) as Happening,
    () => ({ kind: 'pause', sidecar: sidecar(), forMs: short() }) as Happening,
    () =>
      ({
        kind: 'cut',
        sidecar: sidecar(),
        how: chance.pick(['silent', 'refused', 'answers lost']),
        forMs: 2 * short(),
      }) as Happening,
    () =>
      ({ kind: 'weather', how: chance.pick(['lossy', 'repeating', 'slow']), forMs: short() }) as Happening,
    () => ({ kind: 'weather', how: 'repeating', forMs: 3 * short() }) as Happening,
    () =>
      ({
        kind: 'disk',
        sidecar: sidecar(),
        how: chance.pick(['fails', 'full', 'sync fails', 'sync lies', 'slow']),
        forMs: short(),
      }) as Happening,
    () =>
      ({
        kind: 'clock',
        sidecar: sidecar(),
        jumpMs: Math.round(
          chance.pick([-1, 1]) * chance.pick([500, 5_000, 70_000, 90_000_000]) * chance.fraction(),
        ),
      }) as Happening,
    () => ({ kind: 'crash replica', replica: chance.below(2), forMs: short() }) as Happening,
    () => ({ kind: 'pause replica', replica: chance.below(2), forMs: short() }) as Happening,
    () => ({ kind: 'bus down', forMs: short() }) as Happening,
    () => ({ kind: 'control plane fails', fails: chance.pick([0.1, 0.5, 1]), forMs: short() }) as Happening,
    () => ({ kind: 'upgrade', release: chance.pick(['before', 'after', 'this']) }) as Happening,
    () =>
      ({
        kind: 'standing',
        passport: chance.below(course.passports.length),
        standing: chance.pick(['suspended', 'revoked', 'active', 'active']),
      }) as Happening,
    () =>
      ({
        kind: 'change gate',
        gate: chance.below(course.gates.length),
        factor: chance.pick([0.5, 1, 2]),
      }) as Happening,
  ];
}
