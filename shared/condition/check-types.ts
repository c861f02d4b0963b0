import { SourceFault } from './fault.ts';
import type { FormNode } from './form.ts';
import { conditionFunctions, type Kind, printedFunction } from './functions.ts';
import { conditionLimits } from './limits.ts';
import type { Syntax } from './parse-source.ts';
import { compilePattern } from './pattern.ts';
import { isTimeZone } from './time-zone.ts';

/** What is known of a value before it is evaluated. `of`: its items, or the values of a map. */
export interface Type {
  readonly kind: Kind;
  readonly of?: Type;
  /** Of a variable with fixed members. */
  readonly members?: ReadonlyMap<string, Type>;
  /** False: none, although its kind is not known. */
  readonly hasMembers?: false;
  /** Of a variable that is read by members only, so that each condition names the facts on which it rests. */
  readonly isRoot?: boolean;
}
interface Checked {
  readonly node: FormNode;
  readonly type: Type;
}
export type Declared = ReadonlyMap<string, Type>;

const dyn: Type = { kind: 'dyn' };
const simple = (kind: Kind): Type => (kind === 'dyn' ? dyn : { kind });
const stringOrNull: Type = { kind: 'dyn', hasMembers: false };
const object: Type = { kind: 'map', of: dyn, isRoot: true };
const fixed = (members: Readonly<Record<string, Type>>): Type => ({
  kind: 'map',
  members: new Map(Object.entries(members)),
  isRoot: true,
});

/** The variables of a decision (contract §4). */
export const declaredVariables: Declared = new Map(
  Object.entries({
    request: object,
    passport: fixed({
      ...{ id: simple('string'), agent_id: simple('string'), trust_tier: simple('string') },
      permissions: { kind: 'list', of: simple('string') },
      ...{ issuer: stringOrNull, owner: stringOrNull, wallet_id: stringOrNull },
    }),
    claims: object,
    gate: fixed({ id: simple('string'), trust_level: simple('string') }),
    user: stringOrNull,
    now: simple('timestamp'),
  }),
);

/** Why these functions of CEL are not there, as people ask for them. */
const absent: ReadonlyMap<string, string> = new Map(
  Object.entries({
    ...{ uint: 'write an int', bytes: 'write a string', type: 'a value of the wrong type is an error' },
    ...{ lowerAscii: "match with '(?i)'", upperAscii: "match with '(?i)'" },
  }),
);
const isNumber = ({ kind }: Type): boolean => kind === 'int' || kind === 'double';

/** Can a value of this type equal one of that? Unlike ones never do, so that comparing them is a mistake. */
function mayEqual(left: Type, right: Type): boolean {
  if (left.kind === 'dyn' || right.kind === 'dyn' || (isNumber(left) && isNumber(right))) return true;
  if (left.kind !== right.kind) return false;
  return left.of === undefined || right.of === undefined || mayEqual(left.of, right.of);
}

function common(types: readonly Type[]): Type {
  const [first, ...others] = types;
  if (first === undefined || first.isRoot) return dyn;
  return others.every(({ kind }) => kind === first.kind) && first.of === undefined ? first : dyn;
}

/** The checked form of a tree, and its type; throws SourceFault. */
export function checkTypes(syntax: Syntax, declared: Declared): Checked {
  return new Checker(declared).check(syntax, new Map());
}

/** Types of the items that comprehensions around a node have named. */
type Locals = ReadonlyMap<string, Type>;

class Checker {
  readonly #declared: Declared;
  #patterns = 0;

  constructor(declared: Declared) {
    this.#declared = declared;
  }

  /** A value that is used whole. */
  check(syntax: Syntax, locals: Locals): Checked {
    const checked = this.#any(syntax, locals);
    if (checked.type.isRoot) {
      const name = checked.node[1];
      throw new SourceFault(syntax.at, `'${name}' is read by its members: ${name}.x, or 'x' in ${name}`);
    }
    return checked;
  }

  #any(syntax: Syntax, locals: Locals): Checked {
    switch (syntax.kind) {
      case 'literal':
        return { node: syntax.form, type: simple(syntax.form[0] as Kind) };
      case 'name':
        return this.#name(syntax.name, syntax.at, locals);
      case 'member':
        return this.#member(syntax.operand, syntax.name, syntax.at, locals);
      case 'list': {
        const items = syntax.items.map((each) => this.check(each, locals));
        const node: FormNode = ['list', ...items.map((each) => each.node)];
        return { node, type: { kind: 'list', of: common(items.map(({ type }) => type)) } };
      }
      case 'map':
        return this.#map(syntax.items, locals);
      case 'call':
        return this.#call(syntax, locals);
    }
  }

  #name(name: string, at: number, locals: Locals): Checked {
    const local = locals.get(name);
    if (local !== undefined) return { node: ['local', name], type: local };
    const type = this.#declared.get(name);
    if (type !== undefined) return { node: ['var', name], type };
    const known = [...this.#declared.keys(), ...locals.keys()].join(', ');
    throw new SourceFault(at, `there is no variable '${name}', only ${known}`);
  }

  #member(operand: Syntax, name: string, at: number, locals: Locals): Checked {
    const { node, type } = this.#any(operand, locals);
    if ((type.kind !== 'map' && type.kind !== 'dyn') || type.hasMembers === false) {
      const kind = type.kind === 'dyn' ? 'string' : type.kind;
      throw new SourceFault(at, `a ${kind} has no member '${name}'`);
    }
    const found = type.members === undefined ? (type.of ?? dyn) : type.members.get(name);
    if (found === undefined) {
      const members = [...(type.members?.keys() ?? [])].join(', ');
      throw new SourceFault(at, `there is no '${name}', only ${members}`);
    }
    return { node: ['select', node, name], type: found };
  }

  #map(items: readonly Syntax[], locals: Locals): Checked {
    const checked = items.map((each) => this.check(each, locals));
    checked.forEach(({ type: { kind } }, index) => {
      if (index % 2 === 0 && !['string', 'int', 'bool', 'dyn'].includes(kind)) {
        throw new SourceFault((items[index] as Syntax).at, `a ${kind} is no key of a map`);
      }
    });
    const of = common(checked.filter((_, index) => index % 2 === 1).map(({ type }) => type));
    return { node: ['map', ...checked.map(({ node }) => node)], type: { kind: 'map', of } };
  }

  #call(call: Syntax & { readonly kind: 'call' }, locals: Locals): Checked {
    const { at, name, target, args } = call;
    const operands = target === null ? args : [target, ...args];
    const [first, second, third] = operands as [Syntax, Syntax, Syntax];
    if (name === 'has' && target === null) return this.#has(args, at, locals);
    if (name === 'dyn' && target === null && args.length === 1) {
      const { node, type } = this.check(first, locals);
      return { node, type: type.hasMembers === false ? type : dyn };
    }
    if (target !== null && comprehensions.has(name)) return this.#comprehension(call, target, locals);
    switch (name) {
      case '_&&_':
      case '_||_': {
        const kind = name === '_&&_' ? 'and' : 'or';
        const terms = termsOf(call, name).map((each) => this.#bool(each, locals, name));
        return { node: [kind, ...(terms as [FormNode, FormNode])], type: simple('bool') };
      }
      case '_?_:_': {
        const test = this.#bool(first, locals, name);
        const [yes, no] = [this.check(second, locals), this.check(third, locals)];
        return { node: ['if', test, yes.node, no.node], type: common([yes.type, no.type]) };
      }
      case '_[_]':
        return this.#index(first, second, locals);
      case '@in':
        return this.#in(first, second, at, locals);
      default:
        return this.#function(call, operands, locals);
    }
  }

  #bool(syntax: Syntax, locals: Locals, name: string): FormNode {
    const { node, type } = this.check(syntax, locals);
    if (type.kind === 'bool' || type.kind === 'dyn') return node;
    throw new SourceFault(syntax.at, `${printedFunction(name)} takes a bool, not a ${type.kind}`);
  }

  #has(args: readonly Syntax[], at: number, locals: Locals): Checked {
    const [member] = args;
    if (args.length !== 1 || member?.kind !== 'member') {
      throw new SourceFault(at, 'has() takes one member, such as has(request.amount_micro_usd)');
    }
    const { node } = this.#member(member.operand, member.name, member.at, locals);
    return { node: ['has', node[1] as FormNode, member.name], type: simple('bool') };
  }

  #index(operand: Syntax, index: Syntax, locals: Locals): Checked {
    if (index.kind === 'literal' && index.form[0] === 'string') {
      const { type } = this.#any(operand, locals);
      // The same as a member, and a fact of its own.
      if (type.kind !== 'list') return this.#member(operand, index.form[1], index.at, locals);
    }
    const from = this.check(operand, locals);
    const key = this.check(index, locals);
    const keys: readonly Kind[] = ['string', 'int', 'double', 'bool', 'dyn'];
    const isFitting =
      from.type.kind === 'list'
        ? isNumber(key.type) || key.type.kind === 'dyn'
        : keys.includes(key.type.kind);
    if (!['list', 'map', 'dyn'].includes(from.type.kind) || !isFitting) {
      throw new SourceFault(index.at, `a ${from.type.kind} has no items by ${key.type.kind}`);
    }
    return { node: ['index', from.node, key.node], type: from.type.of ?? dyn };
  }

  #in(item: Syntax, range: Syntax, at: number, locals: Locals): Checked {
    const whole = this.#any(range, locals);
    if (whole.type.isRoot && item.kind === 'literal' && item.form[0] === 'string') {
      return { node: ['has', whole.node, item.form[1]], type: simple('bool') };
    }
    const [left, right] = [this.check(item, locals), this.check(range, locals)];
    if (!['list', 'map', 'dyn'].includes(right.type.kind)) {
      throw new SourceFault(range.at, `'in' takes a list or a map on its right, not a ${right.type.kind}`);
    }
    if (right.type.kind === 'list' && !mayEqual(left.type, right.type.of ?? dyn)) {
      throw new SourceFault(at, `a ${left.type.kind} is never in a list of ${right.type.of?.kind}`);
    }
    return { node: ['call', '@in', left.node, right.node], type: simple('bool') };
  }

  #comprehension(call: Syntax & { readonly kind: 'call' }, target: Syntax, locals: Locals): Checked {
    const { at, name, args } = call;
    const macro = (name === 'existsOne' ? 'exists_one' : name) as 'all' | 'exists' | 'exists_one' | 'filter';
    const [item, ...bodies] = args;
    const isMap = name === 'map';
    if (item?.kind !== 'name' || (bodies.length !== 1 && !(isMap && bodies.length === 2))) {
      throw new SourceFault(at, `${name}() takes the name of an item and what is asked of it`);
    }
    const range = this.check(target, locals);
    if (!['list', 'map', 'dyn'].includes(range.type.kind)) {
      throw new SourceFault(at, `${name}() goes through a list or a map, not a ${range.type.kind}`);
    }
    const of = range.type.kind === 'list' ? (range.type.of ?? dyn) : dyn;
    const inside = new Map([...locals, [item.name, of]]);
    const last = bodies.at(-1) as Syntax;
    if (isMap) {
      const test = bodies.length === 2 ? this.#bool(bodies[0] as Syntax, inside, 'map') : null;
      const step = this.check(last, inside);
      const node: FormNode = ['each', item.name, range.node, test, step.node];
      return { node, type: { kind: 'list', of: common([step.type]) } };
    }
    const node: FormNode = [macro, item.name, range.node, this.#bool(last, inside, name)];
    return { node, type: name === 'filter' ? { kind: 'list', of } : simple('bool') };
  }

  #function(call: Syntax & { readonly kind: 'call' }, operands: readonly Syntax[], locals: Locals): Checked {
    const { at, name, target } = call;
    const known = conditionFunctions.get(name);
    const printed = printedFunction(name);
    if (known === undefined) {
      const why = absent.get(name);
      throw new SourceFault(at, `there is no function ${printed}${why === undefined ? '' : `: ${why}`}`);
    }
    if (known.style === 'function' && target !== null) {
      throw new SourceFault(at, `${printed} is called as ${name}(x)`);
    }
    if (known.style === 'method' && target === null) {
      throw new SourceFault(at, `${printed} is called as x.${name}()`);
    }
    const checked = operands.map((each) => this.check(each, locals));
    const types = checked.map(({ type }) => type);
    const fitting = known.overloads.filter(
      ({ takes }) =>
        takes.length === types.length &&
        takes.every((kind, index) => kind === 'dyn' || [kind, 'dyn'].includes((types[index] as Type).kind)),
    );
    const [left, right] = types;
    const isUnlike = (name === '_==_' || name === '_!=_') && !mayEqual(left as Type, right as Type);
    const [best] = fitting;
    if (best === undefined || isUnlike) {
      throw new SourceFault(at, `${printed} does not take ${types.map(({ kind }) => kind).join(' and ')}`);
    }
    const literal = this.#literalArgument(name, operands[1]);
    if (literal !== null)
      return { node: ['matches', (checked[0] as Checked).node, ...literal], type: simple('bool') };
    const gives = fitting.every((each) => each.gives === best.gives) ? simple(best.gives) : dyn;
    const nodes = checked.map(({ node }) => node) as [FormNode, ...FormNode[]];
    return { node: ['call', name, ...nodes], type: gives };
  }

  /**
   * Patterns and time zones are known when a condition is written, so that they are checked then. A pattern
   * comes back with its steps.
   */
  #literalArgument(name: string, argument: Syntax | undefined): readonly [string, number] | null {
    const isPattern = name === 'matches';
    if (argument === undefined || (!isPattern && !name.startsWith('get'))) return null;
    const text = argument.kind === 'literal' && argument.form[0] === 'string' ? argument.form[1] : null;
    if (text === null) {
      throw new SourceFault(argument.at, `the ${isPattern ? 'pattern' : 'time zone'} has to be a literal`);
    }
    if (!isPattern) {
      if (isTimeZone(text)) return null;
      throw new SourceFault(argument.at, 'there is no such time zone');
    }
    this.#patterns += 1;
    const { patternsMax } = conditionLimits;
    const compiled =
      this.#patterns > patternsMax ? `more than ${patternsMax} patterns` : compilePattern(text);
    if (typeof compiled === 'string') throw new SourceFault(argument.at, compiled);
    return [text, compiled.steps];
  }
}

const comprehensions = new Set(['all', 'exists', 'exists_one', 'existsOne', 'filter', 'map']);

/** `a && b && c` as one list of terms. */
function termsOf(call: Syntax & { readonly kind: 'call' }, name: string): readonly Syntax[] {
  const terms: Syntax[] = [];
  let left: Syntax = call;
  while (left.kind === 'call' && left.name === name) {
    const [next, last] = left.args as [Syntax, Syntax];
    terms.unshift(last);
    left = next;
  }
  return [left, ...terms];
}
