import type { Chance } from './chance.ts';
import type { Course } from './course.ts';
import type { Step } from './plan.ts';
import { asksOf } from './scenarios.ts';

/** Numbers of requests that no other part of the plan has. */
const requestsFrom = 900_000;
/** The gate without limits. */
const openGate = 4;

/** What a spool must survive beside a control plane that is away; in a part of the seeds. */
export function diskSteps(chance: Chance, course: Course, durationMs: number): Step[] {
  if (!chance.happens(0.12)) return [];
  const sidecar = chance.below(course.sidecars);
  const atMs = chance.between(0.15, 0.5) * durationMs;
  const asks = asksOf(chance, course, requestsFrom);
  const here = { gate: openGate, sidecar, amountUsd: null };
  // Where answers do not wait for a sync, a power cut may lose them anyway.
  const steps = course.fsyncMs === 0 ? powerGoesInSync : writesFailWhole;
  return [
    { kind: 'cut', sidecar, how: 'refused', forMs: 4_000, atMs },
    ...asks.many(6, atMs + 10, atMs + 190, here),
    ...steps(sidecar, atMs + 200),
    ...asks.many(24, atMs + 200, atMs + 900, here),
    ...asks.many(8, atMs + 900, atMs + 2_400, here),
  ];
}

/** The bytes of failed writes are in the file; it is killed before it ships what it wrote after them. */
const writesFailWhole = (sidecar: number, atMs: number): Step[] => [
  { kind: 'disk', sidecar, how: 'writes fail', forMs: 200, atMs },
  { kind: 'crash', sidecar, forMs: 100, atMs: atMs + 2_300 },
];

const powerGoesInSync = (sidecar: number, atMs: number): Step[] => [
  { kind: 'disk', sidecar, how: 'slower', forMs: 1_000, atMs },
  { kind: 'cut power', sidecar, forMs: 100, atMs: atMs + 500 },
];
