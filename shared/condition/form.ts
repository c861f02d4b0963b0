import { conditionFunctions } from './functions.ts';
import { conditionLimits } from './limits.ts';
import { compilePattern } from './pattern.ts';

/**
 * The checked form of a condition: what travels with a gate, and what a replay walks. docs/condition-form.md
 * says what each node means and how many steps it takes.
 */
export interface CheckedForm {
  /** A form that an older program does not know has another number. */
  readonly form: 1;
  readonly expr: FormNode;
}

export type FormNode =
  | readonly ['null']
  | readonly ['bool', boolean]
  /** Decimal, within 64 bits. */
  | readonly ['int', string]
  /** As JavaScript prints it, and `-0`. */
  | readonly ['double', string]
  | readonly ['string', string]
  /** One of `rootNames`. */
  | readonly ['var', string]
  /** The item of a comprehension around it; the innermost of that name. */
  | readonly ['local', string]
  | readonly ['select' | 'has', FormNode, string]
  | readonly ['index', FormNode, FormNode]
  | readonly ['list', ...FormNode[]]
  /** Key, value, key, value. */
  | readonly ['map', ...FormNode[]]
  | readonly ['and' | 'or', FormNode, FormNode, ...FormNode[]]
  | readonly ['if', FormNode, FormNode, FormNode]
  /** Target, pattern, steps for each 64 characters of the target begun. */
  | readonly ['matches', FormNode, string, number]
  /** A method has its target first. */
  | readonly ['call', string, FormNode, ...FormNode[]]
  /** Name of the item, range, what is asked of each item. */
  | readonly ['all' | 'exists' | 'exists_one' | 'filter', string, FormNode, FormNode]
  /** Name, range, test (null: all items), what becomes of each item. */
  | readonly ['each', string, FormNode, FormNode | null, FormNode];

export const rootNames = ['request', 'passport', 'claims', 'gate', 'user', 'now'] as const;
export type RootName = (typeof rootNames)[number];

const int64 = { min: -(2n ** 63n), max: 2n ** 63n - 1n };
/** The others are values by themselves. */
const readByMember: ReadonlySet<string> = new Set(['request', 'passport', 'claims', 'gate']);
const isRoot = (name: unknown): boolean => rootNames.includes(name as RootName);
const namePattern = /^[A-Za-z_][A-Za-z0-9_]*$/;
const decimal = /^(?:0|-?[1-9]\d{0,18})$/;

export const isInt64 = (value: bigint): boolean => value >= int64.min && value <= int64.max;
export const printDouble = (value: number): string => (Object.is(value, -0) ? '-0' : String(value));

/**
 * The form of that value, which a peer sent; null: it is none, or passes a bound. `isVariable`: other names
 * than those of a decision, for tests.
 */
export function parseForm(value: unknown, isVariable = isRoot): CheckedForm | null {
  if (typeof value !== 'object' || value === null || Object.keys(value).sort().join() !== 'expr,form') {
    return null;
  }
  const { form, expr } = value as { form: unknown; expr: unknown };
  const isSound = form === 1 && new FormReader(isVariable).isNode(expr, []);
  return isSound ? (value as CheckedForm) : null;
}

const isText = (text: unknown): text is string =>
  typeof text === 'string' && text.length <= conditionLimits.sourceBytesMax && text.isWellFormed();
const isName = (text: unknown): text is string => isText(text) && namePattern.test(text);
const isDecimal = (text: unknown): boolean => isText(text) && decimal.test(text) && isInt64(BigInt(text));
const isPrintedDouble = (text: unknown): boolean =>
  isText(text) && Number.isFinite(Number(text)) && printDouble(Number(text)) === text;

class FormReader {
  readonly #isVariable: (name: unknown) => boolean;
  #nodesLeft: number = conditionLimits.nodesMax;
  #patternsLeft: number = conditionLimits.patternsMax;

  constructor(isVariable: (name: unknown) => boolean) {
    this.#isVariable = isVariable;
  }

  isNode(node: unknown, locals: readonly string[]): boolean {
    if (!Array.isArray(node)) return false;
    this.#nodesLeft -= 1;
    if (this.#nodesLeft < 0) return false;
    const [kind, ...rest] = node as unknown[];
    const [first] = rest;
    switch (kind) {
      case 'null':
        return rest.length === 0;
      case 'bool':
        return rest.length === 1 && typeof first === 'boolean';
      case 'int':
        return rest.length === 1 && isDecimal(first);
      case 'double':
        return rest.length === 1 && isPrintedDouble(first);
      case 'string':
        return rest.length === 1 && isText(first);
      case 'var':
        return rest.length === 1 && this.#isVariable(first) && !readByMember.has(first as string);
      case 'local':
        return rest.length === 1 && locals.includes(first as string);
      case 'select':
      case 'has':
        return rest.length === 2 && isText(rest[1]) && this.#isOperand(first, locals);
      case 'matches':
        return rest.length === 3 && this.#isPattern(rest[1], rest[2]) && this.isNode(first, locals);
      case 'call':
        return this.#isCall(rest, locals);
      case 'all':
      case 'exists':
      case 'exists_one':
      case 'filter':
      case 'each':
        return this.#isComprehension(kind, rest, locals);
      default:
        return typeof kind === 'string' && this.#isOperator(kind, rest, locals);
    }
  }

  #areNodes(nodes: readonly unknown[], locals: readonly string[]): boolean {
    return nodes.length <= this.#nodesLeft && nodes.every((each) => this.isNode(each, locals));
  }

  /** Of a member: variables that are read by member stand here and nowhere else; a user has none. */
  #isOperand(node: unknown, locals: readonly string[]): boolean {
    const isVariable =
      Array.isArray(node) && node.length === 2 && node[0] === 'var' && readByMember.has(node[1]);
    if (Array.isArray(node) && node[0] === 'var' && node[1] === 'user') return false;
    return (isVariable && this.#isVariable(node[1])) || this.isNode(node, locals);
  }

  #isPattern(source: unknown, steps: unknown): boolean {
    this.#patternsLeft -= 1;
    if (this.#patternsLeft < 0 || !isText(source)) return false;
    const compiled = compilePattern(source);
    return typeof compiled !== 'string' && compiled.steps === steps;
  }

  #isOperator(kind: string, rest: readonly unknown[], locals: readonly string[]): boolean {
    const isFitting =
      (kind === 'index' && rest.length === 2) ||
      (kind === 'if' && rest.length === 3) ||
      ((kind === 'and' || kind === 'or') && rest.length >= 2) ||
      (kind === 'map' && rest.length % 2 === 0) ||
      kind === 'list';
    return isFitting && this.#areNodes(rest, locals);
  }

  #isCall([name, ...args]: readonly unknown[], locals: readonly string[]): boolean {
    if (typeof name !== 'string' || name === 'matches' || !this.#areNodes(args, locals)) return false;
    const known = conditionFunctions.get(name);
    if (!known?.overloads.some(({ takes }) => takes.length === args.length)) return false;
    const second = args[1] as FormNode | undefined;
    return !name.startsWith('get') || second === undefined || second[0] === 'string';
  }

  #isComprehension(kind: string, rest: readonly unknown[], locals: readonly string[]): boolean {
    const [name, range, ...bodies] = rest;
    if (rest.length !== (kind === 'each' ? 4 : 3) || !isName(name)) return false;
    const asked = kind === 'each' && bodies[0] === null ? bodies.slice(1) : bodies;
    return this.isNode(range, locals) && this.#areNodes(asked, [...locals, name]);
  }
}
