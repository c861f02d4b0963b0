import { limits } from '../model/limits.ts';
import { isUnescaped, quote, sortNames } from './canonical-json.ts';
import { namesIn } from './json-losses.ts';
import type { JsonObject } from './json-object.ts';
import { numberText } from './number-text.ts';

/**
 * Writes the RFC 8785 form of parsed JSON and checks in the same walk that it is safe (`assertSafeJson`), for
 * each request of a sidecar. The reference is `canonicalJson` after `assertSafeJson`; a property test
 * compares the two.
 *
 * Callers repeat the same lists of member names. For each list the writer caches a plan, the order of its
 * members and their quoted names, so known lists are not sorted, quoted or checked again. Plans are found by
 * following the names one by one:
 *
 *     root ──"permission_key"──> ○ ──"amount"──> ● plan of {permission_key, amount}
 *                                └──"domain"──> ● plan of {permission_key, domain}
 *
 * A document adds at most `stepsPerDocumentMax` steps, and a writer with `stepsMax` steps starts over, so
 * names that never repeat cost little.
 */
export class RequestWriter {
  /** Steps of known lists. */
  steps = 0;
  /** Plans made since the start, cached or not. */
  plansMade = 0;
  #root = newStep();
  #budget = 0;
  #isUnescaped = false;
  /** Facts about the last written value: see `isWholeOf`. */
  #written = 0;
  #members = 0;
  #hasLongNumber = false;
  #hasZeros = false;
  /** Walks since the start. */
  #walks = 0;
  /** Remaining characters of a copy. */
  #charsLeft = 0;
  /** The object or list that was copied last. */
  #copied: object = {};
  /** Member texts of the objects around the current place. */
  #texts: string[] = [];
  #top = 0;

  /**
   * Null for values that `assertSafeJson` refuses or that have no JSON form. `depth`: objects and arrays
   * around the value. `isUnescaped`: all its texts are ASCII and need no escapes, as in an ASCII document
   * without a backslash.
   */
  write(
    value: unknown,
    { depth, isUnescaped }: { readonly depth: number; readonly isUnescaped: boolean },
  ): string | null {
    this.#begin(isUnescaped);
    return this.#end(this.#value(value, depth));
  }

  /**
   * Whether JSON.parse has read the last written value from this text without a loss (json-losses.ts).
   * `others`: characters of the text around the value, beside members of their own, in RFC 8785 form.
   *
   * Equal lengths prove it for most texts. White space and the first of two members with one name are in the
   * text and not in the RFC 8785 form, in which no string is longer than in the text. Nor is a number, unless
   * it was written with an exponent and has zeros in a row: `1e8` may hide a lost member. So a text as long
   * as its form has lost neither a member nor a character of a number, and digits can only have changed in
   * numbers of sixteen or more.
   */
  isWholeOf(
    text: string,
    others: { readonly chars: number; readonly members: number } = nothingElse,
  ): boolean {
    const isAsLong = text.length === this.#written + others.chars;
    if (isAsLong && !this.#hasLongNumber && !(this.#hasZeros && exponent.test(text))) return true;
    return namesIn(text) === this.#members + others.members;
  }

  /**
   * The same for a program's object, via a copy, so that later changes and unstable getters of the program
   * have no effect. Null also for values that JSON.stringify writes differently (`toJSON`, undefined, -0),
   * for long lists of names or items, and for more than `limits.bodyBytesMax` characters of names and texts.
   * `depth`: as in `write`.
   */
  writeCopy(
    given: object,
    { depth }: { readonly depth: number },
  ): { readonly copy: JsonObject; readonly text: string } | null {
    if (Array.isArray(given)) return null;
    const walk = this.#begin(false);
    this.#charsLeft = limits.bodyBytesMax;
    const text = this.#end(this.#copy(given, depth));
    // A getter of the program may have started another check, whose walk replaced this one.
    const isWhole = walk === this.#walks && this.#charsLeft >= 0;
    return text === null || !isWhole ? null : { copy: this.#copied as JsonObject, text };
  }

  /** Returns the number of the walk. */
  #begin(isUnescaped: boolean): number {
    this.#isUnescaped = isUnescaped;
    this.#members = 0;
    this.#hasLongNumber = false;
    this.#hasZeros = false;
    this.#budget = stepsPerDocumentMax;
    this.#top = 0;
    this.#walks += 1;
    return this.#walks;
  }

  #end(text: string | null): string | null {
    if (this.#texts.length > textsMax) this.#texts = [];
    this.#written = text?.length ?? 0;
    return text;
  }

  #value(value: unknown, depth: number): string | null {
    switch (typeof value) {
      case 'string':
        if (this.#isUnescaped || isUnescaped(value)) return `"${value}"`;
        return value.isWellFormed() ? quote(value) : null;
      case 'number':
        return this.#number(value);
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

  #number(value: number): string | null {
    if (!Number.isFinite(value)) return null;
    const text = numberText(value);
    if ((value | 0) === value) {
      // Most numbers are small integers with fewer than three trailing zeros.
      if (value % 1_000 === 0 && value !== 0) this.#hasZeros = true;
    } else {
      const size = Math.abs(value);
      if (text.length > 15 || size >= 1e21) this.#hasLongNumber = true;
      if (size < 0.01 || value % 1_000 === 0) this.#hasZeros = true;
    }
    return text;
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
    // Parsed JSON has no inherited members, so `for in` lists its own without an array.
    for (const name in members) {
      const text = this.#value(members[name], depth);
      if (text === null) return null;
      texts[this.#top++] = text;
      if (step !== null) step = step.next.get(name) ?? null;
    }
    return this.#join(members, first, step);
  }

  /** The text of the copy, which is then in `#copied`. */
  #copy(given: object, depth: number): string | null {
    if (depth >= limits.jsonDepthMax || (given as Members)['toJSON'] !== undefined) return null;
    if (Array.isArray(given)) return this.#copyList(given, depth + 1);
    // Count before copying.
    if (Object.keys(given).length > namesMax) return null;
    this.#charsLeft -= 2;
    // Shared references can double the size with each level.
    if (this.#charsLeft < 0) return null;
    // A spread keeps V8's hidden class: copying member by member takes several times as long.
    const copy: Record<string, unknown> = { ...given };
    const texts = this.#texts;
    const first = this.#top;
    let step: Step | null = this.#root;
    for (const name in copy) {
      const member = copy[name];
      this.#charsLeft -= 1 + name.length;
      const text = this.#copyValue(member, depth + 1);
      if (text === null) return null;
      if (typeof member === 'object' && member !== null) copy[name] = this.#copied;
      texts[this.#top++] = text;
      if (step !== null) step = step.next.get(name) ?? null;
    }
    this.#copied = copy;
    return this.#join(copy, first, step);
  }

  #copyList(given: readonly unknown[], depth: number): string | null {
    this.#charsLeft -= 2 + given.length;
    if (this.#charsLeft < 0) return null;
    const copy = Array.from(given);
    let text = '';
    for (let i = 0; i < copy.length; i++) {
      const item = copy[i];
      const itemText = this.#copyValue(item, depth);
      if (itemText === null) return null;
      if (typeof item === 'object' && item !== null) copy[i] = this.#copied;
      text += i === 0 ? `[${itemText}` : `,${itemText}`;
    }
    this.#copied = copy;
    return text === '' ? '[]' : `${text}]`;
  }

  #copyValue(value: unknown, depth: number): string | null {
    if (typeof value === 'object' && value !== null) return this.#copy(value, depth);
    if (typeof value === 'string') this.#charsLeft -= value.length;
    return this.#charsLeft < 0 || Object.is(value, -0) ? null : this.#value(value, depth);
  }

  /**
   * Joins the members in canonical order. Their texts start at `first`, in the order of the list of `step`.
   */
  #join(members: Members, first: number, step: Step | null): string | null {
    if (this.#top === first) return '{}';
    this.#members += this.#top - first;
    const plan = step?.plan ?? this.#makePlan(Object.keys(members));
    this.#top = first;
    if (plan === null) return null;
    const texts = this.#texts;
    const { heads, places } = plan;
    let text = '';
    for (let i = 0; i < heads.length; i++) text += (heads[i] ?? '') + (texts[first + (places[i] ?? 0)] ?? '');
    return `${text}}`;
  }

  /** Null for a forbidden name. */
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

  /** If the document's budget ends, the next document with this list continues from there. */
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

const nothingElse = { chars: 0, members: 0 } as const;
const exponent = /\d[eE]/;

type Members = Readonly<Record<string, unknown>>;

interface Plan {
  /** The quoted names with the punctuation around them, in the order of RFC 8785. */
  readonly heads: readonly string[];
  /** For each, the member's index in the list. */
  readonly places: readonly number[];
}

interface Step {
  readonly next: Map<string, Step>;
  /** The plan of the list that ends here. */
  plan: Plan | null;
}

const newStep = (): Step => ({ next: new Map(), plan: null });

const isSafeName = (name: string): boolean => name !== '__proto__' && name.isWellFormed();

/**
 * About 300 bytes each with its share of a plan: 1.2 MB for some 500 lists of 8 names. In the worst case,
 * lists of `namesMax` names of `nameCharsMax` characters that differ in the last, 15 MB.
 */
export const stepsMax = 4_096;
/** Enough for a usual list; making this many takes about a microsecond. */
export const stepsPerDocumentMax = 8;
/** Longer lists are tables keyed by id, which hardly repeat. */
const namesMax = 32;
/** Longer names are not names of fields. */
const nameCharsMax = 64;
/** Kept between documents; a larger array is dropped, because it keeps the texts of its document alive. */
const textsMax = 256;
