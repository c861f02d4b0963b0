import { canonical, encode, isObject, type Json } from './canonical.ts';
import { demand, type ExportCrypto } from './record.ts';

/** What opens a commitment, as the service answers it (docs/facts.md). */
export interface OpenedFact {
  readonly path: string;
  readonly salt: string;
  readonly value: unknown;
  readonly commitment: string;
  /** The path was absent, and `value` is null. */
  readonly absent?: true;
  /** `value` is the hash of a value whose RFC 8785 form is longer than 1 KiB. */
  readonly hashed?: true;
}

const formBytesMax = 1_024;

/** What the fact is a commitment to; null: it is malformed. `hash`: SHA-256 as `sha256:` and hex. */
export async function commitmentOf(
  { path, salt, value, absent, hashed }: Omit<OpenedFact, 'commitment'>,
  hash: ExportCrypto['hash'],
): Promise<string | null> {
  if (absent === true) return value === null ? hash(textOf(path, salt, '')) : null;
  if (hashed === true) {
    const isHash = typeof value === 'string' && /^sha256:[0-9a-f]{64}$/.test(value);
    return isHash ? hash(textOf(path, salt, value)) : null;
  }
  const form = canonical(value);
  if (form === null) return null;
  return hash(textOf(path, salt, encode(form).length > formBytesMax ? await hash(form) : form));
}

const textOf = (path: string, salt: string, form: string): string =>
  `agent-trust.fact.v1:${salt}:${path}:${form}`;

const members: ReadonlySet<string> = new Set(['absent', 'commitment', 'hashed', 'path', 'salt', 'value']);

const isFact = (value: unknown): value is OpenedFact & Json =>
  isObject(value) &&
  Object.keys(value).every((name) => members.has(name)) &&
  [value['path'], value['commitment']].every((each) => typeof each === 'string') &&
  typeof value['salt'] === 'string' &&
  /^[\w-]{22}$/.test(value['salt']) &&
  [value['absent'], value['hashed']].every((each) => each === undefined || each === true);

/** Records have `id` instead. */
export const isFactsLine = (value: unknown): value is Json => isObject(value) && 'attestation_id' in value;

/** The facts of an export, each after its record. Methods throw `Fault`. */
export class Facts {
  readonly #hash: ExportCrypto['hash'];
  /** Of the record before, by path, what is not open yet. */
  #closed = new Map<string, unknown>();
  #recordId: unknown = null;
  opened = 0;
  /** Commitments that nothing in the file opens. */
  withheld = 0;

  constructor({ hash }: Pick<ExportCrypto, 'hash'>) {
    this.#hash = hash;
  }

  name({ id, facts, user }: Json): void {
    this.#recordId = id;
    this.#closed = new Map();
    for (const { path, commitment } of (facts ?? []) as readonly OpenedFact[])
      this.#closed.set(path, commitment);
    if (typeof user === 'string') this.#closed.set('/user', user);
    this.withheld += this.#closed.size;
  }

  async read(value: Json): Promise<void> {
    const { attestation_id: id, facts, ...none } = value;
    const isLine = Object.keys(none).length === 0 && Array.isArray(facts) && facts.every(isFact);
    demand(isLine, 'malformed', 'the line has no facts of this format');
    const isNext = id === this.#recordId;
    demand(isNext, 'facts_misplaced', 'the facts do not follow their record');
    for (const fact of facts as readonly OpenedFact[]) {
      const { path, commitment } = fact;
      const isNamed = this.#closed.get(path) === commitment;
      demand(isNamed, 'fact_unnamed', 'the record has no such commitment, or it is opened twice');
      const isOpen = (await commitmentOf(fact, this.#hash)) === commitment;
      demand(isOpen, 'fact_mismatch', 'a value does not open its commitment');
      this.#closed.delete(path);
      this.opened += 1;
      this.withheld -= 1;
    }
  }
}
