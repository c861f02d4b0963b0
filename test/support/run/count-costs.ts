import { subscribe } from 'node:diagnostics_channel';
import { afterAll, beforeAll } from 'vitest';
import { repairJsonParse } from '../../../shared/runtime/sound-json.ts';
import { type Costs, countCost, takeCosts } from '../base/costs.ts';

declare module 'vitest' {
  interface TaskMeta {
    /** Of a test file that has ended. */
    costs?: Costs;
  }
}

// As the programs do.
repairJsonParse();

/** Runs before each test file: a worker goes through many, and its process counts for all of them. */
const listening = Symbol.for('agent-trust.test.counts-processes');
const worker = globalThis as { [listening]?: true };
if (worker[listening] === undefined) {
  worker[listening] = true;
  subscribe('child_process', () => countCost('processes'));
}

beforeAll(() => void takeCosts());
// biome-ignore lint/correctness/noEmptyPattern: vitest reads which fixtures a hook wants from its pattern
afterAll(({}, file) => {
  file.meta.costs = takeCosts();
});
