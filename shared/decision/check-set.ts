import { type CheckName, checkNames } from '../model/decision.ts';

/**
 * A set of checks, one bit each in the order of `checkNames`, so adding one during a decision costs nothing.
 */
export type CheckSet = number;

type Bits = Readonly<Record<CheckName, CheckSet>>;

export const check: Bits = Object.fromEntries(checkNames.map((name, place) => [name, 1 << place])) as Bits;

/** Every possible list, precomputed: 4,096 frozen lists, about 450 KB. */
const lists: readonly (readonly CheckName[])[] = Array.from({ length: 1 << checkNames.length }, (_, set) =>
  Object.freeze(checkNames.filter((name) => (set & check[name]) !== 0)),
);

const none: readonly CheckName[] = Object.freeze([]);

/** The checks of a set in the order they run; the same frozen list each time. */
export const listChecks = (set: CheckSet): readonly CheckName[] => lists[set] ?? none;
