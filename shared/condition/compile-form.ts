import { assert, must } from '../errors/assert.ts';
import { conversionNamed } from './conversions.ts';
import { type CheckedForm, type FormNode, parseForm } from './form.ts';
import { conditionLimits } from './limits.ts';
import { binaryOperators, itemAt, mismatch, negate, overBudget, take, takeText } from './operators.ts';
import { compilePattern } from './pattern.ts';
import { chainOf } from './reads-of.ts';
import { timeFieldNamed } from './time-fields.ts';
import { offsetsOf } from './time-zone.ts';
import {
  codePointsIn,
  entryOf,
  Failure,
  isMap,
  keyOf,
  keysOf,
  kindOf,
  MapValue,
  type Outcome,
  sizeOf,
  Timestamp,
  toDouble,
  toInt,
  type Value,
} from './values.ts';
import type { Evaluate, StepBudget, Variables } from './variables.ts';

/** One evaluation. */
interface Frame {
  readonly variables: Variables;
  readonly budget: StepBudget;
  /** Items of the comprehensions around a node, outermost first. */
  readonly locals: Value[];
}
type Code = (frame: Frame) => Outcome;
const noFrame: Frame = { variables: {} as Variables, budget: { left: 0 }, locals: [] };
/** Names of the comprehensions around a node, outermost first. */
type Scope = readonly string[];

/**
 * What evaluates that form: closures, made once per version of a gate. It never throws and takes at most the
 * steps of its budget. The form is one of `checkCondition` or `parseForm`. `isVariable`: as there.
 */
export function compileForm(form: CheckedForm, isVariable?: (name: unknown) => boolean): Evaluate {
  assert(parseForm(form, isVariable) !== null, 'a form is parsed before it is compiled');
  const code = compileNode(form.expr, []);
  return (variables, budget) => {
    const outcome = code({ variables, budget, locals: [] });
    // An operator may have passed over the error of a budget, as `true || error` does.
    if (budget.left < 0) return overBudget;
    if (typeof outcome === 'boolean' || outcome instanceof Failure) return outcome;
    return new Failure(`the condition is not a bool but ${kindOf(outcome)}`);
  };
}

function compileNode(node: FormNode, scope: Scope): Code {
  switch (node[0]) {
    case 'null':
      return () => null;
    case 'bool':
    case 'string': {
      const value = node[1];
      return () => value;
    }
    case 'int': {
      const value = toInt(BigInt(node[1]));
      return () => value;
    }
    case 'double': {
      const value = toDouble(Number(node[1]));
      return () => value;
    }
    case 'var':
      return compileVariable(node[1]);
    case 'local': {
      const slot = scope.lastIndexOf(node[1]);
      return ({ locals }) => locals[slot] as Value;
    }
    case 'select':
    case 'has':
      return compileMember(node, scope);
    case 'index':
      return withTwo(compileNode(node[1], scope), compileNode(node[2], scope), itemAt);
    case 'list':
      return compileList(node.slice(1) as unknown as FormNode[], scope);
    case 'map':
      return compileMap(compileAll(node.slice(1) as unknown as FormNode[], scope));
    case 'and':
    case 'or':
      return compileLogic(node[0], compileAll(node.slice(1) as unknown as FormNode[], scope));
    case 'if':
      return compileIf(compileAll(node.slice(1) as unknown as FormNode[], scope));
    case 'matches':
      return compileMatches(compileNode(node[1], scope), node[2]);
    case 'call':
      return compileCall(node[1], node.slice(2) as unknown as FormNode[], scope);
    case 'each': {
      const inside = [...scope, node[1]];
      const test = node[3] === null ? () => true : compileNode(node[3], inside);
      const loop = { range: compileNode(node[2], scope), test, slot: scope.length, steps: itemSteps(node) };
      return compileEach(loop, compileNode(node[4], inside));
    }
    case 'filter': {
      const test = compileNode(node[3], [...scope, node[1]]);
      const slot = scope.length;
      const loop = { range: compileNode(node[2], scope), test, slot, steps: itemSteps(node) };
      return compileEach(loop, ({ locals }) => locals[slot] as Value);
    }
    default: {
      const test = compileNode(node[3], [...scope, node[1]]);
      const loop = { range: compileNode(node[2], scope), test, slot: scope.length, steps: itemSteps(node) };
      return compileQuantifier(node[0], loop);
    }
  }
}

const compileAll = (nodes: readonly FormNode[], scope: Scope): readonly Code[] =>
  nodes.map((each) => compileNode(each, scope));

function compileVariable(name: string): Code {
  if (name === 'now') return ({ variables }) => new Timestamp(variables.nowMs, 0);
  return ({ variables }) => variables[name as 'request'] as Value;
}

/** As people write it, for errors. */
function printed(node: FormNode): string {
  if (node[0] === 'var' || node[0] === 'local') return node[1];
  if (node[0] !== 'select' && node[0] !== 'has') return '(...)';
  const name = node[2];
  return `${printed(node[1])}${/^[A-Za-z_]\w*$/.test(name) ? `.${name}` : `[${JSON.stringify(name)}]`}`;
}
const absentError = (node: FormNode): Failure => {
  const path = printed(node);
  return new Failure(`${path.length > 200 ? `${path.slice(0, 199)}…` : path} is absent`);
};

/**
 * A member of a variable at any depth is one fact: present, or absent as soon as anything before it is.
 * So `has()` of it is false where CEL has an error for the member before; a fact could not tell them apart.
 */
function compileMember(node: FormNode & readonly ['select' | 'has', FormNode, string], scope: Scope): Code {
  const isTest = node[0] === 'has';
  const failure = absentError(node);
  const chain = chainOf(node);
  if (chain !== null && chain[0] !== 'now') {
    return ({ variables }) => {
      let value: unknown = variables;
      for (const name of chain) {
        if (typeof value !== 'object' || value === null || Array.isArray(value))
          return isTest ? false : failure;
        value =
          value instanceof MapValue
            ? entryOf(value, name)
            : Object.hasOwn(value, name)
              ? (value as Record<string, unknown>)[name]
              : undefined;
        if (value === undefined) return isTest ? false : failure;
      }
      return isTest ? true : (value as Value);
    };
  }
  const operand = compileNode(node[1], scope);
  const name = node[2];
  return (frame) => {
    const from = operand(frame);
    if (from instanceof Failure) return from;
    if (!isMap(from)) return new Failure(`${failure.detail}: it is read from a ${kindOf(from)}`);
    const value = entryOf(from, name);
    if (isTest) return value !== undefined;
    return value === undefined ? failure : value;
  };
}

function compileList(nodes: readonly FormNode[], scope: Scope): Code {
  const items = compileAll(nodes, scope);
  // A list of literals is made once.
  if (nodes.every(([kind]) => ['null', 'bool', 'int', 'double', 'string'].includes(kind))) {
    const list = items.map((each) => each(noFrame)) as Value[];
    return () => list;
  }
  return (frame) => {
    const list: Value[] = [];
    for (const each of items) {
      const item = each(frame);
      if (item instanceof Failure) return item;
      list.push(item);
    }
    return list;
  };
}

function compileMap(items: readonly Code[]): Code {
  return (frame) => {
    const entries = new Map<unknown, Value>();
    for (let at = 0; at < items.length; at += 2) {
      const key = (items[at] as Code)(frame);
      if (key instanceof Failure) return key;
      const value = (items[at + 1] as Code)(frame);
      if (value instanceof Failure) return value;
      const kind = kindOf(key);
      if (kind !== 'string' && kind !== 'int' && kind !== 'bool')
        return new Failure(`a ${kind} is no key of a map`);
      if (entries.has(keyOf(key))) return new Failure('a map has a key twice');
      entries.set(keyOf(key), value);
    }
    return new MapValue(entries);
  };
}

/** One term decides although another one is an error: `true || error` is true, in either order. */
function compileLogic(kind: 'and' | 'or', terms: readonly Code[]): Code {
  const deciding = kind === 'or';
  return (frame) => {
    let failure: Failure | null = null;
    for (const each of terms) {
      const term = each(frame);
      if (term === deciding) return deciding;
      if (term === !deciding) continue;
      failure ??= term instanceof Failure ? term : mismatch(deciding ? '_||_' : '_&&_', term);
    }
    return failure ?? !deciding;
  };
}

function compileIf([test, yes, no]: readonly Code[]): Code {
  return (frame) => {
    const found = (test as Code)(frame);
    if (found === true) return (yes as Code)(frame);
    if (found === false) return (no as Code)(frame);
    return found instanceof Failure ? found : mismatch('_?_:_', found);
  };
}

/** Items of a list; keys of a map, all of which are steps at once because they are sorted first. */
function itemsOf(range: Value, budget: StepBudget): readonly unknown[] | Failure {
  if (Array.isArray(range)) return range;
  if (!isMap(range)) return new Failure(`a comprehension does not go through ${kindOf(range)}`);
  return take(budget, sizeOf(range)) ? keysOf(range) : overBudget;
}

interface Loop {
  readonly range: Code;
  readonly test: Code;
  /** Of the item among the locals. */
  readonly slot: number;
  /** Of each item. */
  readonly steps: number;
}

/** One, and one more for each 50 nodes that are evaluated for an item: what is an array is a node. */
function itemSteps([, , , ...bodies]: readonly unknown[]): number {
  let nodes = 0;
  const open = [...bodies];
  for (let each = open.pop(); each !== undefined; each = open.pop()) {
    if (!Array.isArray(each)) continue;
    nodes += 1;
    open.push(...each);
  }
  return Math.ceil(nodes / conditionLimits.nodesPerStep);
}

function compileQuantifier(kind: 'all' | 'exists' | 'exists_one', { range, test, slot, steps }: Loop): Code {
  const deciding = kind === 'exists';
  return (frame) => {
    const from = range(frame);
    if (from instanceof Failure) return from;
    const items = itemsOf(from, frame.budget);
    if (items instanceof Failure) return items;
    let failure: Failure | null = null;
    let found = 0;
    for (const item of items) {
      if (!take(frame.budget, steps)) return overBudget;
      frame.locals[slot] = item as Value;
      const answer = test(frame);
      if (answer === true) found += 1;
      else if (answer !== false) failure ??= answer instanceof Failure ? answer : mismatch(kind, answer);
      if (frame.budget.left < 0) return overBudget;
      if (kind === 'exists_one') {
        if (failure !== null) return failure;
      } else if (answer === deciding) {
        return deciding;
      }
    }
    return kind === 'exists_one' ? found === 1 : (failure ?? !deciding);
  };
}

function compileEach({ range, test, slot, steps }: Loop, step: Code): Code {
  return (frame) => {
    const from = range(frame);
    if (from instanceof Failure) return from;
    const items = itemsOf(from, frame.budget);
    if (items instanceof Failure) return items;
    const list: Value[] = [];
    for (const item of items) {
      if (!take(frame.budget, steps)) return overBudget;
      frame.locals[slot] = item as Value;
      const isTaken = test(frame);
      if (isTaken === false) continue;
      if (isTaken !== true) return isTaken instanceof Failure ? isTaken : mismatch('_?_:_', isTaken);
      const value = step(frame);
      if (value instanceof Failure) return value;
      list.push(value);
    }
    return list;
  };
}

const withOne =
  (operand: Code, apply: (value: Value, budget: StepBudget) => Outcome): Code =>
  (frame) => {
    const value = operand(frame);
    return value instanceof Failure ? value : apply(value, frame.budget);
  };
const withTwo =
  (first: Code, second: Code, apply: (left: Value, right: Value, budget: StepBudget) => Outcome): Code =>
  (frame) => {
    const left = first(frame);
    if (left instanceof Failure) return left;
    const right = second(frame);
    return right instanceof Failure ? right : apply(left, right, frame.budget);
  };

function compileCall(name: string, args: readonly FormNode[], scope: Scope): Code {
  const [first, second] = args as [FormNode, FormNode | undefined];
  const operand = compileNode(first, scope);
  const convert = conversionNamed(name);
  if (convert !== undefined) return withOne(operand, convert);
  const timeField = timeFieldNamed(name);
  if (timeField !== null) return compileTimeField(operand, timeField, second);
  switch (name) {
    case '!_':
      return withOne(operand, (value) => (typeof value === 'boolean' ? !value : mismatch(name, value)));
    case '-_':
      return withOne(operand, negate);
    case 'size':
      return withOne(operand, size);
    default: {
      const binary = binaryOperators[name] ?? textFunctions[name];
      return withTwo(
        operand,
        compileNode(must(second, `${name} has two operands`), scope),
        must(binary, `${name} is a function of conditions`),
      );
    }
  }
}

function compileTimeField(
  operand: Code,
  field: NonNullable<ReturnType<typeof timeFieldNamed>>,
  zone: FormNode | undefined,
): Code {
  const offsetAt = zone === undefined ? () => 0 : offsetsOf(zone[1] as string);
  // The zone was there where the condition was written: this program's zones are older.
  const unknown = new Failure(`this program does not know the time zone ${zone?.[1]}`);
  return withOne(operand, (value, budget) => {
    if (offsetAt === null) return unknown;
    // A zone that is asked for another hour takes some microseconds.
    return zone === undefined || take(budget, 1) ? field(value, offsetAt) : overBudget;
  });
}

function compileMatches(operand: Code, source: string): Code {
  const pattern = compilePattern(source);
  assert(typeof pattern !== 'string', 'a pattern of a form compiles');
  return withOne(operand, (value, budget) => {
    if (typeof value !== 'string') return mismatch('matches', value, source);
    const steps = Math.ceil(value.length / conditionLimits.charsPerStep) * pattern.steps;
    return take(budget, steps) ? pattern.test(value) : overBudget;
  });
}

function size(value: Value, budget: StepBudget): Outcome {
  if (typeof value === 'string') return takeText(budget, value.length) ? codePointsIn(value) : overBudget;
  if (Array.isArray(value)) return value.length;
  if (!isMap(value)) return mismatch('size', value);
  const members = sizeOf(value);
  return take(budget, members) ? members : overBudget;
}

const textFunction =
  (
    name: string,
    holds: (text: string, part: string) => boolean,
    charsOf: (text: string, part: string) => number,
  ) =>
  (text: Value, part: Value, budget: StepBudget): Outcome => {
    if (typeof text !== 'string' || typeof part !== 'string') return mismatch(name, text, part);
    return takeText(budget, charsOf(text, part)) ? holds(text, part) : overBudget;
  };
const textFunctions: Readonly<Record<string, ReturnType<typeof textFunction>>> = {
  startsWith: textFunction(
    'startsWith',
    (text, part) => text.startsWith(part),
    (_text, part) => part.length,
  ),
  endsWith: textFunction(
    'endsWith',
    (text, part) => text.endsWith(part),
    (_text, part) => part.length,
  ),
  contains: textFunction(
    'contains',
    (text, part) => text.includes(part),
    (text, part) => text.length * Math.max(1, Math.ceil(part.length / conditionLimits.charsPerStep)),
  ),
};
