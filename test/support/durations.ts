import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { BaseSequencer, type Reporter, type TestModule, type TestSpecification } from 'vitest/node';
import { laneOf } from '../lanes.ts';
import { interleave } from './interleave.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const listFile = join(root, 'test/durations.json');
const pathOf = (moduleId: string): string => moduleId.slice(root.length);

/** Seconds by test file. Those that take less than one are not listed. */
const readDurations = (): Record<string, number> => JSON.parse(readFileSync(listFile, 'utf8'));

/** The files of each project from the longest to the shortest, its lanes beside each other. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const durations = readDurations();
    const projects = new Set(files.map(({ project }) => project));
    return [...projects].flatMap((project) => {
      const own = files.filter((file) => file.project === project);
      const timed = own.map((file) => {
        const path = pathOf(file.moduleId);
        return { file, lane: laneOf(path), seconds: durations[path] ?? 0 };
      });
      return interleave(timed).map(({ file }) => file);
    });
  }
}

/** Writes what the files of this run took into the list, and takes those out that are gone. */
export class DurationsReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const durations = readDurations();
    for (const module of modules)
      durations[pathOf(module.moduleId)] = Math.round(module.diagnostic().duration / 1_000);
    const listed = Object.entries(durations)
      .filter(([path, seconds]) => seconds >= 1 && existsSync(join(root, path)))
      .toSorted(([a], [b]) => (a < b ? -1 : 1));
    writeFileSync(listFile, `${JSON.stringify(Object.fromEntries(listed), null, 2)}\n`);
  }
}
