import { SourceFault } from './fault.ts';
import { type FormNode, isInt64, printDouble } from './form.ts';
import { conditionLimits } from './limits.ts';
import { type Token, tokensOf } from './tokens.ts';

/** A node of the source; `at` is the place that a fault of its own points to. */
export type Syntax = { readonly at: number } & (
  | { readonly kind: 'literal'; readonly form: FormNode }
  | { readonly kind: 'name'; readonly name: string }
  | { readonly kind: 'member'; readonly operand: Syntax; readonly name: string }
  | { readonly kind: 'list' | 'map'; readonly items: readonly Syntax[] }
  | {
      readonly kind: 'call';
      /** Operators by the names of CEL: `_+_`, `_&&_`, `_?_:_`, `_[_]`, `@in`. */
      readonly name: string;
      readonly target: Syntax | null;
      readonly args: readonly Syntax[];
    }
);

const literals: ReadonlyMap<string, FormNode> = new Map<string, FormNode>([
  ['true', ['bool', true]],
  ['false', ['bool', false]],
  ['null', ['null']],
]);
const reserved = new Set([
  ...['as', 'break', 'const', 'continue', 'else', 'for', 'function', 'if', 'import', 'let', 'loop'],
  ...['package', 'namespace', 'return', 'var', 'void', 'while', 'in'],
]);
/** Binary operators, those that bind least first. */
const levels: readonly (readonly string[])[] = [
  ...[['||'], ['&&'], ['==', '!=', '<', '<=', '>', '>=', 'in'], ['+', '-'], ['*', '/', '%']],
];

/**
 * The tree of that source; throws SourceFault. Written here because @bufbuild/cel 0.6.1, the oracle of our
 * tests, takes 75 ms for 3 KiB of `a[0][0]...` and points syntax errors of an inner part at an outer one.
 */
export function parseSource(source: string): Syntax {
  return new Parser(tokensOf(source)).whole();
}

class Parser {
  readonly #tokens: readonly Token[];
  #next = 0;
  #nodes = 0;
  #nesting = 0;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  whole(): Syntax {
    const whole = this.#expression();
    if (this.#peek.kind !== 'end') this.#refuse('an operator or the end');
    return whole;
  }

  get #peek(): Token {
    return this.#tokens[this.#next] as Token;
  }

  #refuse(expected: string): never {
    const { kind, at, text } = this.#peek;
    const found = kind === 'end' ? 'the end' : kind === 'string' ? 'a string' : `'${text}'`;
    throw new SourceFault(at, `expected ${expected}, found ${found}`);
  }

  /** Takes the next word if it is that mark or the operator `in`. */
  #takes(text: string): Token | null {
    const token = this.#peek;
    if (token.text !== text || token.kind !== (text === 'in' ? 'name' : 'mark')) return null;
    this.#next += 1;
    return token;
  }

  #expect(mark: string, expected = `'${mark}'`): Token {
    return this.#takes(mark) ?? this.#refuse(expected);
  }

  #made(node: Syntax): Syntax {
    this.#nodes += 1;
    if (this.#nodes > conditionLimits.nodesMax) {
      throw new SourceFault(node.at, `more than ${conditionLimits.nodesMax} nodes`);
    }
    return node;
  }

  #called(at: number, name: string, ...args: Syntax[]): Syntax {
    return this.#made({ kind: 'call', at, name, target: null, args });
  }

  #expression(): Syntax {
    this.#nesting += 1;
    if (this.#nesting > conditionLimits.nestingMax) {
      throw new SourceFault(this.#peek.at, `nested more than ${conditionLimits.nestingMax} deep`);
    }
    let whole = this.#binary(0);
    const asked = this.#takes('?');
    if (asked !== null) {
      const yes = this.#binary(0);
      this.#expect(':');
      whole = this.#called(asked.at, '_?_:_', whole, yes, this.#expression());
    }
    this.#nesting -= 1;
    return whole;
  }

  #binary(level: number): Syntax {
    const operators = levels[level];
    if (operators === undefined) return this.#unary();
    let left = this.#binary(level + 1);
    for (;;) {
      let taken: Token | null = null;
      for (const each of operators) taken ??= this.#takes(each);
      if (taken === null) return left;
      const name = taken.text === 'in' ? '@in' : `_${taken.text}_`;
      left = this.#called(taken.at, name, left, this.#binary(level + 1));
    }
  }

  #unary(): Syntax {
    const { at, text } = this.#peek;
    let signs = 0;
    while ((text === '!' || text === '-') && this.#takes(text) !== null) signs += 1;
    const token = this.#peek;
    const isNegative = text === '-' && (token.kind === 'int' || token.kind === 'double');
    const operand = this.#member(isNegative && signs > 0);
    // As cel-go reads them: two signs undo each other, and a minus before digits belongs to the number.
    const left = isNegative ? signs - 1 : signs;
    return left % 2 === 0 ? operand : this.#called(at, `${text}_`, operand);
  }

  #member(isNegative: boolean): Syntax {
    let operand = this.#primary(isNegative);
    for (;;) {
      const { at } = this.#peek;
      if (this.#takes('.') !== null) {
        const { kind, at: atName, text: name } = this.#peek;
        if (kind !== 'name' || literals.has(name) || name === 'in') this.#refuse('a name');
        this.#next += 1;
        operand = this.#takes('(')
          ? this.#made({ kind: 'call', at: atName, name, target: operand, args: this.#items(')') })
          : this.#made({ kind: 'member', at: atName, operand, name });
      } else if (this.#takes('[') !== null) {
        const index = this.#expression();
        this.#expect(']');
        operand = this.#called(at, '_[_]', operand, index);
      } else {
        return operand;
      }
    }
  }

  #primary(isNegative: boolean): Syntax {
    const token = this.#peek;
    const { at, kind, text } = token;
    if (this.#takes('(') !== null) {
      const inner = this.#expression();
      this.#expect(')', "')' or an operator");
      return inner;
    }
    if (this.#takes('[') !== null) return this.#made({ kind: 'list', at, items: this.#items(']') });
    if (this.#takes('{') !== null) return this.#made({ kind: 'map', at, items: this.#items('}') });
    if (kind === 'mark' || kind === 'end') this.#refuse('a value');
    this.#next += 1;
    if (kind !== 'name') {
      return this.#made({ kind: 'literal', at, form: literalForm(token, isNegative) });
    }
    const literal = literals.get(text);
    if (literal !== undefined) return this.#made({ kind: 'literal', at, form: literal });
    if (reserved.has(text)) throw new SourceFault(at, `'${text}' is a reserved word of CEL`);
    if (this.#takes('(') === null) return this.#made({ kind: 'name', at, name: text });
    return this.#made({ kind: 'call', at, name: text, target: null, args: this.#items(')') });
  }

  /** What a bracket holds, up to the closing one; of a map key, value, key, value. */
  #items(closing: ')' | ']' | '}'): readonly Syntax[] {
    const items: Syntax[] = [];
    let isClosed = this.#takes(closing) !== null;
    while (!isClosed) {
      items.push(this.#expression());
      if (closing === '}') {
        this.#expect(':');
        items.push(this.#expression());
      }
      const isLast = this.#takes(',') === null;
      if (isLast) this.#expect(closing, `',' or '${closing}'`);
      isClosed = isLast || (closing !== ')' && this.#takes(closing) !== null);
    }
    return items;
  }
}

function literalForm(token: Token, isNegative: boolean): FormNode {
  if (token.kind === 'int') {
    const value = isNegative ? -token.value : token.value;
    if (!isInt64(value)) throw new SourceFault(token.at, 'the int does not fit into 64 bits');
    return ['int', String(value)];
  }
  if (token.kind === 'double') return ['double', printDouble(isNegative ? -token.value : token.value)];
  return ['string', token.text];
}
