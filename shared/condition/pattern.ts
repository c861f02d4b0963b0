import { RE2JS } from '@bufbuild/re2';
import { conditionLimits } from './limits.ts';

/** A compiled pattern of `matches`. Its time is linear in the text. */
export interface Pattern {
  readonly test: (text: string) => boolean;
}

/** The pattern, or what is wrong with it. */
function compile(source: string): Pattern | string {
  const { patternCharsMax, patternInstructionsMax } = conditionLimits;
  if ([...source].length > patternCharsMax) return `the pattern is longer than ${patternCharsMax} characters`;
  try {
    const compiled = RE2JS.compile(source);
    return compiled.re2().prog.numInst() > patternInstructionsMax
      ? `the pattern has more than ${patternInstructionsMax} instructions of RE2; repeat less`
      : compiled;
  } catch (error) {
    return `the pattern is not RE2's: ${(error as Error).message}`;
  }
}

/** Null: not RE2's syntax, or past a bound. */
export function compilePattern(source: string): Pattern | null {
  const compiled = compile(source);
  return typeof compiled === 'string' ? null : compiled;
}

export function patternFault(source: string): string | null {
  const compiled = compile(source);
  return typeof compiled === 'string' ? compiled : null;
}
