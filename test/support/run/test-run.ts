import { performance } from 'node:perf_hooks';
import { BaseSequencer, DefaultReporter, type TestModule, type TestSpecification } from 'vitest/node';
import { laneOf } from '../../lanes.ts';
import { costNames } from '../base/costs.ts';
import { interleave } from '../base/interleave.ts';
import { growthOf, pathOf, readTestList, type Taken, writeTestList } from './test-list.ts';

/** The files of each project from the longest to the shortest, its lanes beside each other. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const list = readTestList();
    const projects = new Set(files.map(({ project }) => project));
    return [...projects].flatMap((project) => {
      const own = files.filter((file) => file.project === project);
      const timed = own.map((file) => {
        const path = pathOf(file.moduleId);
        return { file, lane: laneOf(path), seconds: list.get(path)?.seconds ?? 0 };
      });
      return interleave(timed).map(({ file }) => file);
    });
  }
}

/** Of fewer files each is printed with its tests, as vitest does. */
const filesOfARun = 20;
/** Where no terminal shows one line over and over: one line for so many files. */
const filesPerLine = 50;
const slowestShown = 5;

const minutes = (seconds: number): string =>
  `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, '0')}`;

/**
 * Shows how far a run is: one line that is written over and over in a terminal, and now and then a line
 * elsewhere. What fails is printed as by vitest; the end is a summary of ten lines. It also holds what each
 * lane started and sent against `test/costs.json`, and fails the run where a sum has grown. Requests and
 * waits of lane extra are listed and not held: its floods and kills go on for as long as the machine takes.
 */
export class TestRunReporter extends DefaultReporter {
  readonly #list = readTestList();
  #isLarge = false;
  #files = 0;
  #secondsLeft = 0;
  #secondsDone = 0;
  #done = 0;
  #failed = 0;
  #startedMs = 0;

  constructor() {
    super({ summary: false });
  }

  override onTestRunStart(specifications: readonly TestSpecification[]): void {
    super.onTestRunStart(specifications);
    this.#startedMs = performance.now();
    this.#files = specifications.length;
    this.#isLarge = this.#files > filesOfARun;
    this.#secondsLeft = specifications.reduce((sum, { moduleId }) => sum + this.#secondsOf(moduleId), 0);
  }

  /** A file that takes less than a second, or is new, takes some time, too. */
  #secondsOf(moduleId: string): number {
    return (this.#list.get(pathOf(moduleId))?.seconds ?? 0) + 0.5;
  }

  override onTestModuleEnd(module: TestModule): void {
    this.#done += 1;
    this.#secondsDone += this.#secondsOf(module.moduleId);
    this.#secondsLeft -= this.#secondsOf(module.moduleId);
    const hasFailed = module.state() === 'failed';
    if (hasFailed) this.#failed += 1;
    if (!this.#isLarge || hasFailed) {
      this.#clearLine();
      super.onTestModuleEnd(module);
    }
    if (this.#isLarge) this.#showProgress();
  }

  #showProgress(): void {
    const passedS = (performance.now() - this.#startedMs) / 1_000;
    const leftS = (passedS / this.#secondsDone) * this.#secondsLeft;
    const failed = this.#failed === 0 ? '' : `, ${this.#failed} failed`;
    const line = `${this.#done} of ${this.#files} files${failed}, ${minutes(passedS)} passed, about ${minutes(leftS)} left`;
    if (this.isTTY) process.stdout.write(`\r\x1b[K${line}`);
    else if (this.#done % filesPerLine === 0) this.log(line);
  }

  #clearLine(): void {
    if (this.isTTY && this.#isLarge) process.stdout.write('\r\x1b[K');
  }

  override reportTestSummary(...args: Parameters<DefaultReporter['reportTestSummary']>): void {
    if (!this.#isLarge) super.reportTestSummary(...args);
  }

  override onTestRunEnd(...args: Parameters<DefaultReporter['onTestRunEnd']>): void {
    this.#clearLine();
    super.onTestRunEnd(...args);
    const [modules] = args;
    const taken = new Map(modules.map((module) => [pathOf(module.moduleId), takenBy(module)]));
    if (this.#isLarge) this.#summarize(modules, taken);
    if (process.env['COSTS'] === '1') writeTestList(taken);
    else this.#holdCosts(taken);
  }

  #summarize(modules: readonly TestModule[], taken: ReadonlyMap<string, Taken>): void {
    const tests = modules.flatMap((module) => [...module.children.allTests()]);
    const count = (state: string) => tests.filter((test) => test.result().state === state).length;
    const skipped = count('skipped');
    const wholeS = (performance.now() - this.#startedMs) / 1_000;
    const laneTimes = [...byLane(taken)].map(([lane, files]) => {
      const seconds = [...files.values()].reduce((sum, file) => sum + file.seconds, 0);
      return `${lane} ${Math.round(seconds)} s in ${files.size} files`;
    });
    const slowest = [...taken].toSorted(([, a], [, b]) => b.seconds - a.seconds).slice(0, slowestShown);
    for (const [path, { seconds }] of slowest) this.log(`  ${seconds.toFixed(1).padStart(6)} s  ${path}`);
    this.log(`worker seconds: ${laneTimes.join(', ')}`);
    this.log(`${minutes(wholeS)} for ${modules.length} files`);
    const others = skipped === 0 ? '' : `, ${skipped} skipped`;
    this.log(`Tests: ${count('passed')} passed, ${count('failed')} failed${others}`);
  }

  #holdCosts(taken: ReadonlyMap<string, Taken>): void {
    const listed = byLane(this.#list);
    for (const [lane, ran] of byLane(taken)) {
      const before = listed.get(lane) ?? new Map<string, Taken>();
      // Of a part of a lane, or of one that was never counted, nothing can be said.
      if (![...before.keys()].every((path) => ran.has(path)) || !isCounted(before)) continue;
      const held = lane === 'extra' ? startedNames : costNames;
      for (const { cost, listed: was, now, files: grown } of growthOf(ran, before, held)) {
        process.exitCode = 1;
        this.log(`Lane ${lane} has ${now} ${cost}, and ${was} in test/costs.json: ${grown.join(', ')}.`);
        this.log(
          'If that is meant, write the list anew in the same commit: COSTS=1 npm test (or test:extra).',
        );
      }
    }
  }
}

const startedNames = ['services', 'databases', 'processes'] as const;

const isCounted = (files: ReadonlyMap<string, Taken>): boolean =>
  [...files.values()].some((taken) => costNames.some((cost) => taken[cost] > 0));

function byLane(files: ReadonlyMap<string, Taken>): ReadonlyMap<string, ReadonlyMap<string, Taken>> {
  const lanes = new Map<string, Map<string, Taken>>();
  for (const [path, taken] of files) {
    const lane = laneOf(path) ?? 'none';
    lanes.set(lane, (lanes.get(lane) ?? new Map()).set(path, taken));
  }
  return lanes;
}

function takenBy(module: TestModule): Taken {
  const none = { services: 0, databases: 0, processes: 0, requests: 0, waits: 0 };
  const { costs = none } = module.meta();
  const { duration, collectDuration } = module.diagnostic();
  return { ...costs, seconds: Math.round((duration + collectDuration) / 100) / 10 };
}
