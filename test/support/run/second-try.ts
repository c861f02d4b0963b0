import { stripVTControlCharacters } from 'node:util';
import type { Reporter, TestModule } from 'vitest/node';

/**
 * A test of real programs that fails is tried once more (docs/adr/0034-second-tries.md). One whose error
 * names a seed is not: the second try would draw other numbers.
 */
export const secondTry = { count: 1, condition: /^(?![\s\S]*\bseed\b)/i };

/** Names, after everything else, the tests that needed it, with what they failed with first. */
export class SecondTryReporter implements Reporter {
  readonly #say: (text: string) => void;

  constructor(say = (text: string): void => void process.stdout.write(text)) {
    this.#say = say;
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    const needed = modules.flatMap((module) =>
      [...module.children.allTests()].filter((test) => test.diagnostic()?.flaky),
    );
    if (needed.length === 0) return;
    const lines = needed.flatMap((test) => [
      `  ${test.module.relativeModuleId} > ${test.fullName}`,
      ...(test.result().errors ?? []).flatMap(({ stack, message }) =>
        stripVTControlCharacters(stack ?? message)
          .split('\n')
          .filter((line) => !line.includes('/node_modules/'))
          .map((line) => `      ${line}`),
      ),
    ]);
    const tests = needed.length === 1 ? '1 test' : `${needed.length} tests`;
    this.#say(
      `\n${tests} passed only at a second try. That is a fault of the test or of the program: repair it.\n${lines.join('\n')}\n`,
    );
  }
}
