import {
  Composer,
  type CST,
  Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  Parser,
  type Scalar,
  visit,
} from 'yaml';
import { namesIn } from '../../shared/crypto/json-losses.ts';
import { limits } from '../../shared/model/limits.ts';
import { visible } from '../../shared/model/plain-text.ts';
import { UsageError } from './call-api.ts';
import { cliLimits } from './limits.ts';

/** A file with the places of its values. */
export interface ReadYaml {
  readonly value: unknown;
  /** A fault of the value at this place, such as `gates.0.trust_level`, by its line in the file. */
  fault(param: string | null, message: string): UsageError;
}

/**
 * YAML 1.2, and so JSON, as every reader reads it (contract §5): the bounds of a body, no number that no
 * double holds, no name twice in a map, and no tags. Throws UsageError with the line at fault.
 */
export function readYaml(path: string, text: string): ReadYaml {
  const lineCounter = new LineCounter();
  const fail = (offset: number, message: string): UsageError => {
    const { line, col } = lineCounter.linePos(offset);
    return new UsageError(`${path}:${line}:${col}: ${message.replaceAll('\n', '\\n')}`);
  };
  const tokens = [...new Parser(lineCounter.addNewLine).parse(text)];
  const odd = text.search(unreadable);
  if (odd >= 0)
    throw fail(odd, 'A character that is written as a code, in double quotes: others end a line here.');
  refuseDepth(tokens, fail);
  // Names that are there twice are found below: the library compares each with all others.
  const composer = new Composer({ stringKeys: true, uniqueKeys: false, resolveKnownTags: false });
  const [document, second] = composer.compose(tokens, true, text.length);
  if (second !== undefined) throw fail(second.range[0], 'The file holds a second document.');
  if (document === undefined) throw new UsageError(`${path}: The file is empty.`);
  const [broken] = [...document.errors, ...document.warnings];
  if (broken !== undefined)
    throw fail(broken.pos[0], sentences[broken.code] ?? `${broken.message}.`.replace(/\.+$/, '.'));
  if (document.directives?.yaml.version !== '1.2')
    throw fail(text.indexOf('%YAML'), 'This is YAML 1.1, which reads numbers and words in another way: 1.2.');
  const value = new Values(fail).of(document.contents, 0);
  if (value === null) throw new UsageError(`${path}: The file is empty.`);
  const fault = (param: string | null, message: string): UsageError =>
    fail(placeOf(document, param), message);
  return { value, fault };
}

/**
 * What `readYaml` reads again as it was, for a terminal too. No line is folded: a token in two lines could
 * not be copied.
 */
export function writeYaml(value: object): string {
  const document = new Document(value, { aliasDuplicateObjects: false });
  visit(document, {
    Scalar: (_at, node) => {
      // In quotes, the code of a character stands for it.
      const isStrange = typeof node.value === 'string' && visible(node.value) !== node.value;
      if (isStrange) node.type = 'QUOTE_DOUBLE';
    },
  });
  return visible(document.toString({ lineWidth: 0, blockQuote: false, doubleQuotedAsJSON: true }));
}

/** Not in YAML 1.2 (§5.1, §5.4), which ends a line at each carriage return: the library does not. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what a file must not hold
const unreadable = /[\0-\x08\v\f\x0e-\x1f]|\r(?!\n)/;

const tooDeep = `Nesting is deeper than ${limits.jsonDepthMax}.`;

const sentences: Readonly<Record<string, string>> = { NON_STRING_KEY: 'The name of a member is a text.' };

/** Before values are made of the tokens: that takes stack for each level, and V8 ends a process without. */
function refuseDepth(tokens: readonly CST.Token[], fail: Fail): void {
  const left = tokens.map((token) => ({ token, depth: 0 }));
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    const { token, depth } = next;
    if (token.type === 'document' && token.value !== undefined) left.push({ token: token.value, depth });
    if (!('items' in token)) continue;
    if (depth >= limits.jsonDepthMax) throw fail(token.offset, tooDeep);
    for (const { key, value } of token.items)
      for (const part of [key, value]) if (part != null) left.push({ token: part, depth: depth + 1 });
  }
}

type Fail = (offset: number, message: string) => UsageError;

/** The values of one document, each as JSON would have it. */
class Values {
  readonly #fail: Fail;
  readonly #anchors = new Map<string, Node>();
  readonly #around = new Set<Node>();
  #count = 0;

  constructor(fail: Fail) {
    this.#fail = fail;
  }

  /** `depth`: lists and maps around it. */
  of(node: unknown, depth: number): unknown {
    if (!isAlias(node) && !isScalar(node) && !isMap(node) && !isSeq(node)) return null;
    const refuse = (message: string) => this.#fail(node.range?.[0] ?? 0, message);
    if (isAlias(node)) {
      const meant = this.#anchors.get(node.source);
      if (meant === undefined) throw refuse(`There is no &${node.source} before.`);
      if (this.#around.has(meant)) throw refuse(`*${node.source} is inside of itself.`);
      return this.of(meant, depth);
    }
    if (node.anchor !== undefined) this.#anchors.set(node.anchor, node);
    if (++this.#count > cliLimits.fileValuesMax)
      throw refuse(`There are more than ${cliLimits.fileValuesMax} values, aliases included.`);
    if (isScalar(node)) return readScalar(node, refuse);
    if (depth >= limits.jsonDepthMax) throw refuse(tooDeep);
    this.#around.add(node);
    const value = isSeq(node)
      ? node.items.map((item) => this.of(item, depth + 1))
      : Object.fromEntries(this.#members(node.items, depth + 1));
    this.#around.delete(node);
    return value;
  }

  *#members(
    pairs: readonly { readonly key: unknown; readonly value: unknown }[],
    depth: number,
  ): Generator<[string, unknown]> {
    const names = new Set<string>();
    for (const { key, value } of pairs) {
      const name = String(this.of(key, depth));
      const refuse = (message: string) => this.#fail(isScalar(key) ? (key.range?.[0] ?? 0) : 0, message);
      if (names.has(name)) throw refuse('Two members of one object have the same name.');
      if (name === '__proto__') throw refuse('The member name __proto__ is not allowed.');
      names.add(name);
      yield [name, this.of(value, depth)];
    }
  }
}

function readScalar({ value, source = '' }: Scalar, refuse: (message: string) => UsageError): unknown {
  if (typeof value === 'string' && !value.isWellFormed())
    throw refuse('A string contains a lone surrogate, which is not a character.');
  if (typeof value !== 'number') return value;
  if (!isExact(value, source))
    throw refuse('A number has more digits than a double holds, or is none: write it in quotes.');
  // -0 means 0 (contract §5), and is not equal to what comes back.
  return value + 0;
}

/** YAML also has `0x1F`, `0o17`, `+5`, `.5` and `5.`. */
function isExact(value: number, source: string): boolean {
  if (/^0[ox]/.test(source)) return Number.isSafeInteger(value);
  const decimal = source
    .replace(/^\+/, '')
    .replace(/^(-?)\./, '$10.')
    .replace(/\.(?!\d)/, '');
  return Number.isFinite(value) && namesIn(decimal) !== null;
}

/** Where the value is, or the innermost that is there. */
function placeOf(document: Document, param: string | null): number {
  const names = param === null || param === 'body' ? [] : param.split('.');
  for (let length = names.length; length > 0; length--) {
    const node = document.getIn(names.slice(0, length), true);
    if (isScalar(node) || isMap(node) || isSeq(node) || isAlias(node)) return node.range?.[0] ?? 0;
  }
  return document.contents === null ? 0 : ((document.contents as Node).range?.[0] ?? 0);
}
