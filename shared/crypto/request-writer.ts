import { limits } from '../model/limits.ts';
import { quote, sortNames } from './canonical-json.ts';

/**
 * Writes the RFC 8785 form of parsed JSON and sees in the same walk that it is JSON that the service accepts
 * (`assertSafeJson`): what the sidecar does with each request. The plain version is `canonicalJson` after
 * `assertSafeJson`; a property test compares the two.
 *
 * Callers send objects with the same lists of member names again and again. Of each list the writer keeps
 * which member comes where, and its names as they are written: a list that is known is neither sorted nor
 * quoted nor checked again. Lists are found by following their names one by one:
 *
 *     root ──"permission_key"──> ○ ──"amount"──> ● plan of {permission_key, amount}
 *                                └──"domain"──> ● plan of {permission_key, domain}
 *
 * A document adds at most `stepsPerDocumentMax` steps, and a writer with `stepsMax` of them begins anew:
 * names that never come again cost little, and no memory.
 */
export class RequestWriter {
  /** Steps of lists that are known. */
  steps = 0;
  /** Plans that were made since the start, kept or not. */
  plansMade = 0;
  #root = newStep();
  #budget = 0;
  #isPlain = false;
  /** Texts of the members of the objects around the place where the walk is. */
  #texts: string[] = [];
  #top = 0;

  /**
   * Null for what `assertSafeJson` refuses, and for what JSON cannot say. `depth`: objects and arrays around
   * the value. `isPlain`: no text in it has a character that JSON escapes, nor one beyond ASCII, as in a
   * document of ASCII without a backslash.
   */
  write(
    value: unknown,
    { depth, isPlain }: { readonly depth: number; readonly isPlain: boolean },
  ): string | null {
    this.#isPlain = isPlain;
    this.#budget = stepsPerDocumentMax;
    this.#top = 0;
    const text = this.#value(value, depth);
    if (this.#texts.length > textsMax) this.#texts = [];
    return text;
  }

  #value(value: unknown, depth: number): string | null {
    switch (typeof value) {
      case 'string':
        if (this.#isPlain) return `"${value}"`;
        return value.isWellFormed() ? quote(value) : null;
      case 'number':
        return Number.isFinite(value) ? `${value}` : null;
      case 'boolean':
        return value ? 'true' : 'false';
      case 'object':
        if (value === null) return 'null';
        if (depth >= limits.jsonDepthMax) return null;
        return Array.isArray(value)
          ? this.#list(value, depth + 1)
          : this.#object(value as Members, depth + 1);
      default:
        return null;
    }
  }

  #list(items: readonly unknown[], depth: number): string | null {
    let text = '';
    for (let i = 0; i < items.length; i++) {
      const item = this.#value(items[i], depth);
      if (item === null) return null;
      text += i === 0 ? `[${item}` : `,${item}`;
    }
    return text === '' ? '[]' : `${text}]`;
  }

  #object(members: Members, depth: number): string | null {
    const texts = this.#texts;
    const first = this.#top;
    let step: Step | null = this.#root;
    // Parsed JSON has no inherited members: `for in` sees its own ones and makes no list of them.
    for (const name in members) {
      const text = this.#value(members[name], depth);
      if (text === null) return null;
      texts[this.#top++] = text;
      if (step !== null) step = step.next.get(name) ?? null;
    }
    if (this.#top === first) return '{}';
    const plan = step?.plan ?? this.#makePlan(Object.keys(members));
    this.#top = first;
    if (plan === null) return null;
    const { heads, places } = plan;
    let text = '';
    for (let i = 0; i < heads.length; i++) text += (heads[i] ?? '') + (texts[first + (places[i] ?? 0)] ?? '');
    return `${text}}`;
  }

  /** Null where a name may not be. */
  #makePlan(names: readonly string[]): Plan | null {
    if (!names.every(isSafeName)) return null;
    this.plansMade++;
    const sorted = sortNames([...names]);
    const places = new Map(names.map((name, place) => [name, place]));
    const plan: Plan = {
      heads: sorted.map((name, i) => `${i === 0 ? '{' : ','}${quote(name)}:`),
      places: sorted.map((name) => places.get(name) ?? 0),
    };
    this.#keep(names, plan);
    return plan;
  }

  /** Where the budget of the document ends, the next one with this list goes on from there. */
  #keep(names: readonly string[], plan: Plan): void {
    if (names.length > namesMax || names.some(({ length }) => length > nameCharsMax)) return;
    if (this.steps + stepsPerDocumentMax > stepsMax) {
      this.#root = newStep();
      this.steps = 0;
    }
    let step = this.#root;
    for (const name of names) {
      let next = step.next.get(name);
      if (next === undefined) {
        if (this.#budget === 0) return;
        this.#budget -= 1;
        this.steps += 1;
        next = newStep();
        step.next.set(name, next);
      }
      step = next;
    }
    step.plan = plan;
  }
}

type Members = Readonly<Record<string, unknown>>;

interface Plan {
  /** Each name as it is written, with what comes before and after it; in the order of RFC 8785. */
  readonly heads: readonly string[];
  /** For each of them, the place of the member in the list. */
  readonly places: readonly number[];
}

interface Step {
  readonly next: Map<string, Step>;
  /** Of the list that ends here. */
  plan: Plan | null;
}

const newStep = (): Step => ({ next: new Map(), plan: null });

const isSafeName = (name: string): boolean => name !== '__proto__' && name.isWellFormed();

/**
 * Each takes about 300 bytes with its share of a plan: 1.2 MB in all, for some 500 lists of 8 names. Lists of
 * `namesMax` names of `nameCharsMax` characters that differ in the last one alone would take 15 MB.
 */
export const stepsMax = 4_096;
/** A usual list is complete after one document; making so many takes about a microsecond. */
export const stepsPerDocumentMax = 8;
/** Longer lists are those of tables keyed by id, which hardly come twice. */
const namesMax = 32;
/** Nor is a longer one the name of a field. */
const nameCharsMax = 64;
/** Between documents; a larger one is given back, because it holds on to the texts of its document. */
const textsMax = 256;
