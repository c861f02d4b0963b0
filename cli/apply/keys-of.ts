import { Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { labelValueCharsMax } from '../../shared/model/labels.ts';
import { plainTextPattern } from '../../shared/model/plain-text.ts';

/** The key of an entry of a file. */
export const KeyText = Type.String({
  minLength: 1,
  maxLength: labelValueCharsMax,
  pattern: plainTextPattern.source,
  description:
    'Tells entries of one name apart, and is kept as the label agent-trust/key. Default: the name, of a wallet its path from the root on.',
});
const keyText = Compile(KeyText);

/** Whether a file can give this key. What the API has put in its place may be any text. */
export const isKey = (text: unknown): text is string => keyText.Check(text);

/** What has a name, as others may have, too. */
interface Named {
  readonly id: string;
  readonly name: string;
  /** The key that a file has given it. */
  readonly label: string | null;
  /** Of a wallet: the names from its root on. */
  readonly path: string | null;
}

/**
 * Of each id a key that no other has: what a file gave it, else its name, else its path, else its name with a
 * number, in the order in which they were made. `others`: keys and names that are taken.
 */
export function keysOf(all: readonly Named[], others: Iterable<string> = []): ReadonlyMap<string, string> {
  const sorted = all.toSorted((one, other) => (one.id < other.id ? -1 : 1));
  const keys = new Map<string, string>();
  const taken = new Set(others);
  const give = (id: string, key: string): void => {
    keys.set(id, key);
    taken.add(key);
  };
  for (const member of ['label', 'name', 'path'] as const) {
    const texts = grouped(sorted, (each) => each[member]);
    for (const { id, [member]: text } of sorted)
      if (text !== null && texts.get(text)?.length === 1 && !keys.has(id) && !taken.has(text)) give(id, text);
  }
  for (const { name } of all) taken.add(name);
  for (const { id, name } of sorted) if (!keys.has(id)) give(id, numbered(name, taken));
  return keys;
}

/** `Orders-2`: a label can hold it. */
function numbered(name: string, taken: ReadonlySet<string>): string {
  for (let number = 1; ; number++) {
    const start = name.slice(0, labelValueCharsMax - `-${number}`.length).replace(/[\uD800-\uDBFF]$/, '');
    if (!taken.has(`${start}-${number}`)) return `${start}-${number}`;
  }
}

export function grouped<Item>(
  items: Iterable<Item>,
  by: (item: Item) => string | null,
): ReadonlyMap<string, Item[]> {
  const groups = new Map<string, Item[]>();
  for (const item of items) {
    const text = by(item);
    if (text === null) continue;
    const group = groups.get(text);
    if (group === undefined) groups.set(text, [item]);
    else group.push(item);
  }
  return groups;
}
