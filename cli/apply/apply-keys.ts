import { keyLabel } from '../../shared/model/labels.ts';
import { UsageError } from '../base/call-api.ts';
import type { Account, Current, Found } from './apply-current.ts';
import { issuerPrefix, type Members } from './apply-desired.ts';
import type { ApplyFile, ReadFile } from './apply-file.ts';
import { grouped, keysOf } from './keys-of.ts';

type List = Exclude<keyof ApplyFile, 'version' | 'labels'>;

/** Whether this, of the name of the entry, is what the entry says: of what has no label. */
export type Fits = (list: List, entry: object, current: Current) => boolean;

/**
 * The file with a key in each entry: that of what it means in the account, else one of its own. An entry
 * means what has its key, of a wallet its path, else what has its name alone. What entries name is replaced
 * by keys, too. Throws UsageError, which names all that fit several at once.
 */
export function withKeys(file: ReadFile, account: Account, fits: Fits): ReadFile {
  const faults: UsageError[] = [];
  const found = (list: List, nameOf: 'name' | 'url' = 'name') =>
    new KeyedList({ file, list, nameOf, current: account[list] ?? new Map(), faults, fits });
  const wallets = found('wallets');
  const issuers = found('issuers');
  const templates = found('templates');
  const gates = found('gates');
  const ofIssuers = (constraints: Members, at: string): Members => {
    const { trusted_issuers: given } = constraints;
    if (!Array.isArray(given)) return constraints;
    const trusted = given.map((text: unknown) =>
      typeof text === 'string' && text.startsWith(issuerPrefix)
        ? `${issuerPrefix}${issuers.keyOf(text.slice(issuerPrefix.length), at)}`
        : text,
    );
    return { ...constraints, trusted_issuers: trusted };
  };
  const content = {
    ...file.content,
    wallets: wallets.keyed((each, at) => ({ parent: wallets.keyOf(each.parent, `${at}.parent`) })),
    issuers: issuers.keyed((each, at) => ({ wallet: wallets.keyOf(each.wallet, `${at}.wallet`) })),
    templates: templates.keyed(() => ({})),
    gates: gates.keyed((each, at) => ({
      template: templates.keyOf(each.template, `${at}.template`),
      constraints: each.constraints && ofIssuers(each.constraints, `${at}.constraints.trusted_issuers`),
    })),
    webhooks: found('webhooks', 'url').keyed(() => ({})),
    channels: found('channels').keyed((each, at) => ({ gate: gates.keyOf(each.gate, `${at}.gate`) })),
  };
  if (faults.length > 0) throw new UsageError(faults.map(({ message }) => message).join('\n'));
  return { ...file, content: withoutAbsent(content) as ApplyFile };
}

const withoutAbsent = (members: Members): Members =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));

/** What is read of an entry of any list. */
interface Entry extends Members {
  readonly key?: string;
  readonly parent?: string | null;
  readonly wallet?: string | null;
  readonly template?: string;
  readonly gate?: string;
  readonly constraints?: Members;
}

interface ListOptions {
  readonly file: ReadFile;
  readonly list: List;
  readonly nameOf: 'name' | 'url';
  readonly current: Found;
  readonly faults: UsageError[];
  readonly fits: Fits;
}

/** `called`: its name, or its URL. */
interface CalledEntry extends Entry {
  readonly called: string;
}
interface PlacedEntry extends CalledEntry {
  readonly path: string | null;
}

/** The entries of a list, each with what it means. */
class KeyedList {
  readonly #of: ListOptions;
  readonly #entries: readonly PlacedEntry[];
  /** Of each entry. */
  readonly #keys: string[] = [];
  /** By what tells one from all others. */
  readonly #told = new Map<string, string>();
  readonly #named: ReadonlyMap<string, ReadonlySet<string>>;

  constructor(of: ListOptions) {
    this.#of = of;
    const { file, list, nameOf, current } = of;
    const entries = (file.content[list] ?? []) as readonly Entry[];
    const called = entries.map((entry) => ({ ...entry, called: String(entry[nameOf]) }));
    const pathOf = list === 'wallets' ? pathsOf(called, current) : () => null;
    this.#entries = called.map((entry) => ({ ...entry, path: pathOf(entry) }));
    this.#refuseTwins();
    this.#claim();
    const both = [
      ...this.#entries.map(
        ({ key = null, path, called: name }, at) =>
          [this.#keys[at] ?? '', { label: key, path, name }] as const,
      ),
      ...current,
    ];
    for (const [path, [one, ...others]] of grouped(both, ([, each]) => each.path))
      if (one !== undefined && others.every(([key]) => key === one[0])) this.#told.set(path, one[0]);
    for (const [key, { name }] of both) if (key !== name) this.#told.set(key, key);
    for (const [key, { label }] of both.toReversed()) if (label !== null) this.#told.set(label, key);
    const named = [...grouped(both, ([, { name }]) => name)];
    this.#named = new Map(named.map(([name, those]) => [name, new Set(those.map(([key]) => key))]));
  }

  #refuseTwins(): void {
    const { file, list } = this.#of;
    const seen = new Set<string>();
    for (const [index, { key, path, called }] of this.#entries.entries()) {
      const own = key ?? path ?? called;
      if (seen.has(own))
        throw file.fault(`${list}.${index}`, `"${own}" is in ${list} twice: give each a key.`);
      seen.add(own);
    }
  }

  /** What is told apart best takes first. */
  #claim(): void {
    const { current, fits, list } = this.#of;
    const free = new Map(current);
    const byName = grouped(current, ([, { name }]) => name);
    const byPath = grouped(current, ([, { path }]) => path);
    type Those = readonly (readonly [string, Current])[];
    const pass = (choose: (entry: PlacedEntry, named: Those, at: number) => string | undefined) => {
      for (const [at, entry] of this.#entries.entries()) {
        if (this.#keys[at] !== undefined) continue;
        const named = (byName.get(entry.called) ?? []).filter(([key]) => free.has(key));
        const key = choose(entry, named, at);
        if (key !== undefined && free.delete(key)) this.#keys[at] = key;
      }
    };
    const alone = (at: number, those: Those): string | undefined => {
      if (those.length > 1)
        this.#refuse(
          this.#entries[at]?.called ?? '',
          `${list}.${at}`,
          those.map(([key]) => key),
        );
      return those[0]?.[0];
    };
    pass((entry, named) => named.find(([, each]) => fits(list, entry, each))?.[0]);
    pass(({ key = '' }, named) =>
      current.get(key)?.label === key ? key : named.find(([own]) => own === key)?.[0],
    );
    pass(({ key, path }) => {
      const those = key === undefined ? (byPath.get(path ?? '') ?? []) : [];
      return those.length === 1 ? those[0]?.[0] : undefined;
    });
    pass(({ key }, named, at) => (key === undefined ? alone(at, named) : undefined));
    pass((_, named, at) =>
      alone(
        at,
        named.filter(([, { label }]) => label === null),
      ),
    );
    const idOf = (at: number): string => String(at).padStart(9, '0');
    const fresh = this.#entries.flatMap(({ key = null, called, path }, at) =>
      this.#keys[at] === undefined ? { id: idOf(at), name: called, label: key, path } : [],
    );
    const made = keysOf(fresh, [...current.keys(), ...byName.keys()]);
    for (const at of this.#entries.keys()) this.#keys[at] ??= made.get(idOf(at)) ?? '';
  }

  #refuse(name: string, at: string, keys: readonly string[]): void {
    const { file, list, faults, current } = this.#of;
    const named = keys
      .toSorted()
      .map((key) => `"${key}" (${current.get(key)?.id ?? 'of the file'})`)
      .join(', ');
    faults.push(file.fault(at, `"${name}" fits ${keys.length} ${list}. Give the key of one: ${named}.`));
  }

  /** Of what a text at this place of the file means; the text itself where nothing is called so. */
  keyOf<Text extends string | null | undefined>(text: Text, at: string): Text | string {
    if (typeof text !== 'string') return text;
    const named = [...(this.#named.get(text) ?? [])];
    if (!this.#told.has(text) && named.length > 1) this.#refuse(text, at, named);
    return this.#told.get(text) ?? named[0] ?? text;
  }

  /** The entries with their keys, and with these members. */
  keyed(more: (entry: Entry, at: string) => Members): readonly Members[] | undefined {
    const { file, list, current } = this.#of;
    if (file.content[list] === undefined) return undefined;
    return this.#entries.map(({ called: _called, path: _path, ...entry }, index) => {
      const key = this.#keys[index] ?? '';
      const label = entry.key ?? current.get(key)?.label ?? null;
      const member = keptIn[list];
      const mark =
        member === null || label === null
          ? {}
          : { [member]: { ...(entry[member] as Members), [keyLabel]: label } };
      return { ...entry, ...mark, ...withoutAbsent(more(entry, `${list}.${index}`)), key };
    });
  }
}

const keptIn = {
  ...{ wallets: 'labels', gates: 'labels', webhooks: 'labels' },
  ...{ issuers: 'metadata', templates: null, channels: null },
} as const satisfies Record<List, string | null>;

/** Of a wallet of the file, from its root on; one that would be below itself ends there. */
function pathsOf(entries: readonly CalledEntry[], current: Found): (entry: CalledEntry) => string {
  const byKey = grouped(entries, ({ key = null }) => key);
  const byName = grouped(entries, ({ called }) => called);
  const pathOf = (entry: CalledEntry, below: readonly object[] = []): string => {
    const { called, parent } = entry;
    if (typeof parent !== 'string' || below.includes(entry)) return called;
    const [above, ...others] = byKey.get(parent) ?? byName.get(parent) ?? [];
    return above !== undefined && others.length === 0
      ? `${pathOf(above, [...below, entry])}/${called}`
      : `${current.get(parent)?.path ?? parent}/${called}`;
  };
  return pathOf;
}
