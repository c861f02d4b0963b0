import { RE2JS } from '@bufbuild/re2';
import { conditionLimits } from './limits.ts';

/**
 * Patterns of `matches`: RE2 reads them and makes instructions of them, and the walk over a text is here.
 * That of @bufbuild/re2 0.6.1 took 11 s for 64 KiB and `((a?){20}){20}$`, because it visits states again and
 * again; this one visits each instruction once for a character at most.
 */
export interface Pattern {
  /** Is it found anywhere in the text? */
  readonly test: (text: string) => boolean;
  /** Steps for each 64 characters of text begun. */
  readonly steps: number;
}

/** The pattern, or what is wrong with it. */
export function compilePattern(source: string): Pattern | string {
  const { patternCharsMax, patternInstructionsMax, instructionsPerStep } = conditionLimits;
  if ([...source].length > patternCharsMax) return `the pattern is longer than ${patternCharsMax} characters`;
  try {
    const { prog, cond } = RE2JS.compile(source).re2();
    const { inst, start } = prog;
    if (inst.length > patternInstructionsMax) {
      return `the pattern has more than ${patternInstructionsMax} instructions of RE2; repeat less`;
    }
    const walk = new Walk(inst, start, (cond & textBegins) !== 0);
    return {
      test: (text) => walk.isFoundIn(text),
      steps: Math.ceil(inst.length / instructionsPerStep),
    };
  } catch (error) {
    return `the pattern is not RE2's: ${(error as Error).message}`;
  }
}

type Instructions = ReturnType<ReturnType<RE2JS['re2']>['prog']['getInst']>[];

/** Numbers of RE2's instructions. */
const [alt, altMatch, capture, emptyWidth, match, nop] = [1, 2, 3, 4, 6, 7];
/** From `rune` on an instruction takes a character. */
const [rune, runeAny, runeAnyNotLine] = [8, 10, 11];
/** What holds between two characters. */
const [lineBegins, lineEnds, textBegins, textEnds, wordEdge, noWordEdge] = [1, 2, 4, 8, 16, 32];

const isWord = (char: number): boolean =>
  (char >= 97 && char <= 122) || (char >= 65 && char <= 90) || (char >= 48 && char <= 57) || char === 95;

/** `-1`: no character, the text begins or ends. */
function contextBetween(before: number, after: number): number {
  return (
    (before < 0 ? textBegins | lineBegins : before === 10 ? lineBegins : 0) |
    (after < 0 ? textEnds | lineEnds : after === 10 ? lineEnds : 0) |
    (isWord(before) === isWord(after) ? noWordEdge : wordEdge)
  );
}

/** Transitions of a state: by characters of ASCII, and by the end of the text. */
const [asciiMax, end] = [127, 128];
/** States of one pattern that are kept, of a kilobyte each. Those beyond are made again each time. */
const statesMax = 64;

/** A place in a text. */
interface State {
  /** Instructions behind the last character. */
  readonly from: readonly number[];
  /** A character like the last one: what holds between two depends on its kind. */
  readonly before: number;
  /** By character: the next state, or whether the pattern is found. Null: this state is not kept. */
  readonly to: (State | boolean | undefined)[] | null;
}

/** All ways through a program at once: time is characters times instructions at most. */
class Walk {
  readonly #instructions: Instructions;
  readonly #start: number;
  /** Nothing is found that does not begin with the text. */
  readonly #isAnchored: boolean;
  readonly #states = new Map<string, State>();
  readonly #first: State;
  /** Instructions to be followed at this place: a stack. One is on it once for each edge to it. */
  readonly #open: Int32Array;
  /** At which place an instruction was last visited. */
  readonly #visited: Float64Array;
  #place = 0;
  /** Those that wait for a character. */
  readonly #waiting: Int32Array;
  #waits = 0;

  constructor(instructions: Instructions, start: number, isAnchored: boolean) {
    const { length } = instructions;
    this.#instructions = instructions;
    this.#start = start;
    this.#isAnchored = isAnchored;
    this.#open = new Int32Array(2 * length + 1);
    this.#visited = new Float64Array(length);
    this.#waiting = new Int32Array(length);
    this.#first = this.#stateOf([], -1);
  }

  isFoundIn(text: string): boolean {
    let [state, at] = [this.#first, 0];
    for (;;) {
      const char = at < text.length ? (text.codePointAt(at) as number) : -1;
      const index = char < 0 ? end : char <= asciiMax ? char : -1;
      let to = state.to?.[index];
      if (to === undefined) {
        to = this.#step(state, char);
        if (index >= 0 && state.to !== null) state.to[index] = to;
      }
      if (typeof to === 'boolean') return to;
      state = to;
      at += char > 0xffff ? 2 : 1;
    }
  }

  #step(state: State, char: number): State | boolean {
    const context = contextBetween(state.before, char);
    this.#place += 1;
    this.#waits = 0;
    for (const each of state.from) if (this.#follow(each, context)) return true;
    if ((!this.#isAnchored || state === this.#first) && this.#follow(this.#start, context)) return true;
    if (char < 0) return false;
    const from: number[] = [];
    for (let each = 0; each < this.#waits; each += 1) {
      const instruction = this.#instructions[this.#waiting[each] as number] as Instructions[number];
      if (takes(instruction, char)) from.push(instruction.out);
    }
    if (this.#isAnchored && from.length === 0) return false;
    return this.#stateOf(from, char === 10 ? 10 : isWord(char) ? 97 : 32);
  }

  #stateOf(from: readonly number[], before: number): State {
    if (this.#states.size >= statesMax) return { from, before, to: null };
    const key = `${before}:${from.join()}`;
    const known = this.#states.get(key);
    if (known !== undefined) return known;
    const state: State = { from, before, to: new Array(end + 1).fill(undefined) };
    this.#states.set(key, state);
    return state;
  }

  /** Goes on to all that need no character; true: the pattern is found. */
  #follow(from: number, context: number): boolean {
    const open = this.#open;
    let depth = 1;
    open[0] = from;
    while (depth > 0) {
      depth -= 1;
      const each = open[depth] as number;
      if (this.#visited[each] === this.#place) continue;
      this.#visited[each] = this.#place;
      const { op, out, arg } = this.#instructions[each] as Instructions[number];
      if (op >= rune) {
        this.#waiting[this.#waits] = each;
        this.#waits += 1;
      } else if (op === match) {
        return true;
      } else if (op === alt || op === altMatch) {
        open[depth] = arg;
        open[depth + 1] = out;
        depth += 2;
      } else if (op === capture || op === nop || (op === emptyWidth && (arg & ~context) === 0)) {
        open[depth] = out;
        depth += 1;
      }
    }
    return false;
  }
}

function takes(instruction: Instructions[number], char: number): boolean {
  if (instruction.op === runeAny) return true;
  return instruction.op === runeAnyNotLine ? char !== 10 : instruction.matchRune(char);
}
