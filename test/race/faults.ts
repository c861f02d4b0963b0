import type { Chance } from '../support/base/chance.ts';

const faultKinds = [
  'kill -9 a sidecar',
  'stop a sidecar',
  'pause a sidecar',
  'kill -9 a control plane',
  'pause a control plane',
  'restart PostgreSQL',
  'crash PostgreSQL',
  'FLUSHALL',
  'restart Redis',
  'cut off Redis',
] as const;
export type FaultKind = (typeof faultKinds)[number];

export interface Fault {
  readonly atMs: number;
  readonly kind: FaultKind;
  /** Which one, where there are several. */
  readonly target: number;
  /** How long it lasts: until what was killed starts again, or what was cut or paused goes on. */
  readonly forMs: number;
}

/**
 * Every kind once, and as many kills of sidecars more as there is time for, in an order and at times that
 * follow from the chance alone. None in the last quarter of a short race's time is long enough to leave
 * nothing running at its end.
 */
export function schedule(chance: Chance, durationMs: number): Fault[] {
  const kinds: FaultKind[] = [...faultKinds];
  const everyMs = 2_500;
  while (kinds.length * everyMs < durationMs)
    kinds.push(chance.happens(0.5) ? 'kill -9 a sidecar' : chance.pick(faultKinds));
  const stepMs = (durationMs * 0.9) / kinds.length;
  return shuffled(kinds, chance).map((kind, place) => ({
    atMs: Math.round(stepMs * (place + chance.fraction())),
    kind,
    target: chance.below(1_000),
    forMs: 100 + chance.below(1_900),
  }));
}

function shuffled<T>(items: readonly T[], chance: Chance): T[] {
  const left = [...items];
  const result: T[] = [];
  while (left.length > 0) result.push(...left.splice(chance.below(left.length), 1));
  return result;
}
