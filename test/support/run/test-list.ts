import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Cost, type Costs, costNames } from '../base/costs.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const listFile = join(root, 'test/costs.json');

/** What a test file takes. Seconds are those of the machine that wrote the list, and order the files. */
export type Taken = Costs & { readonly seconds: number };

/** As `vitest` names a file, by the path from the root of the project. */
export const pathOf = (moduleId: string): string => moduleId.slice(root.length);

/** By the path of each test file that is still there. */
export function readTestList(): ReadonlyMap<string, Taken> {
  const listed: Record<string, Partial<Taken>> = JSON.parse(readFileSync(listFile, 'utf8'));
  const there = Object.entries(listed).filter(([path]) => existsSync(join(root, path)));
  return new Map(
    there.map(([path, taken]) => {
      const costs = Object.fromEntries(costNames.map((name) => [name, taken[name] ?? 0]));
      return [path, { seconds: taken.seconds ?? 0, ...(costs as unknown as Costs) }];
    }),
  );
}

/**
 * Puts what has run into the list, and takes those files out that are gone. A line for each; zeros are left
 * out.
 */
export function writeTestList(ran: ReadonlyMap<string, Taken>): void {
  const lines = [...new Map([...readTestList(), ...ran])]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([path, taken]) => {
      const shown = (['seconds', ...costNames] as const).filter((name) => taken[name] > 0);
      const entry = Object.fromEntries(shown.map((name) => [name, taken[name]]));
      return `  ${JSON.stringify(path)}: ${JSON.stringify(entry)}`;
    });
  writeFileSync(listFile, `{\n${lines.join(',\n')}\n}\n`);
}

/** A sum of a lane may grow by so much before the list has to say so. */
const growthMax = 1.1;
/** So that a lane without databases may have a test with one without a word. */
const slack = 3;

/** A sum of a lane that has grown. */
export interface Growth {
  readonly cost: Cost;
  readonly listed: number;
  readonly now: number;
  /** Those that grew most, as `path (+12)`. */
  readonly files: readonly string[];
}

/** Holds what the files of one lane took against the list. */
export function growthOf(
  ran: ReadonlyMap<string, Costs>,
  listed: ReadonlyMap<string, Costs>,
  held: readonly Cost[] = costNames,
): readonly Growth[] {
  return held.flatMap((cost) => {
    const before = (path: string) => listed.get(path)?.[cost] ?? 0;
    const grown = [...ran].map(([path, costs]) => ({
      path,
      now: costs[cost],
      more: costs[cost] - before(path),
    }));
    const now = grown.reduce((sum, each) => sum + each.now, 0);
    const was = [...listed.values()].reduce((sum, costs) => sum + costs[cost], 0);
    if (now <= was * growthMax + slack) return [];
    const files = grown
      .filter(({ more }) => more > 0)
      .toSorted((a, b) => b.more - a.more)
      .slice(0, 3)
      .map(({ path, more }) => `${path} (+${more})`);
    return [{ cost, listed: was, now, files }];
  });
}
