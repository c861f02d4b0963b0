import { must } from '../errors/assert.ts';
import { type BrokenAnswer, describeBroken } from './broken-chains.ts';

export type ExportVerdict =
  | {
      readonly kind: 'valid';
      readonly chains: number;
      readonly records: number;
      /**
       * Records signed by a key that the JWKS marks compromised; a thief of the key could have written them.
       */
      readonly compromisedRecords: number;
      /** Chains of which records are in archives. */
      readonly archivedChains: number;
      /** Passports and approvals signed by such a key: a thief could have stated anything of them. */
      readonly compromisedStatements: number;
      /** Approvals that are stated to be removed: nothing shows who answered them. */
      readonly removedApprovals: number;
    }
  | Invalid;

interface Invalid {
  readonly kind: 'invalid';
  readonly fault: string;
  readonly sentence: string;
  /** From 1. */
  readonly line: number;
  /** The faulty chain and the expected sequence number; null outside of a chain. */
  readonly chainId: string | null;
  readonly sequence: number | null;
  /**
   * Chains that the service reports as broken; the rest of the file verifies. Empty for other faults.
   */
  readonly broken: readonly BrokenAnswer[];
  /** How many more it counts. */
  readonly brokenUnnamed: number;
}

/** Faults of every export, with their texts. */
export const commonFaults = {
  not_a_line:
    'this is not a line of UTF-8 text that ends in a newline, or it is longer than any in an export',
  not_canonical: 'this line is not in the canonical form that the service writes: it was changed',
  manifest_key_unknown:
    'the manifest names a key that is not an attestation key of the JWKS (fetch the JWKS again)',
  chain_start: 'this chain does not start where its export should start',
  after_end: 'nothing may follow the end line',
  no_end: 'the export is incomplete: it has no end line',
} as const;

/** A fault, and what differs of its verdict from the line and the place at which the reader stands. */
export type Finding<Fault extends string = string> = Partial<Omit<Invalid, 'kind'>> & {
  readonly fault: Fault;
};

/** What reads one kind of export. It is not asked again after a fault. */
export interface LineReader {
  /** Null: no fault. `number`: of the line, from 1. */
  read(line: string | null, number: number): string | Finding | null;
  readonly place: Pick<Invalid, 'chainId' | 'sequence'>;
  readonly isEnded: boolean;
  readonly count: {
    readonly chains: number;
    readonly records: number;
    readonly compromised: number;
    readonly archived: number;
    readonly compromisedStatements?: number;
    readonly removedApprovals?: number;
  };
}

/** Verifies an export line by line, in constant memory. Never throws, whatever the lines say. */
export class ExportVerifier {
  readonly #reader: LineReader;
  readonly #sentences: Readonly<Record<string, string>>;
  #lines = 0;
  #failure: Invalid | null = null;

  constructor(reader: LineReader, sentences: Readonly<Record<string, string>>) {
    this.#reader = reader;
    this.#sentences = sentences;
  }

  get records(): number {
    return this.#reader.count.records;
  }

  /**
   * One line without its newline; null for a line that is not text. After a fault it keeps returning that
   * fault.
   */
  take(line: string | null): Invalid | null {
    if (this.#failure !== null) return this.#failure;
    this.#lines++;
    const fault = this.#reader.read(line, this.#lines);
    return fault === null ? null : this.#fail(typeof fault === 'string' ? { fault } : fault);
  }

  /** After the last line. */
  finish(): ExportVerdict {
    if (this.#failure !== null) return this.#failure;
    if (!this.#reader.isEnded) return this.#fail({ fault: 'no_end' });
    const { chains, records, compromised, archived, ...attached } = this.#reader.count;
    return {
      ...{ kind: 'valid', chains, records, compromisedRecords: compromised, archivedChains: archived },
      ...{ compromisedStatements: 0, removedApprovals: 0, ...attached },
    };
  }

  #fail(finding: Finding): Invalid {
    this.#failure = {
      kind: 'invalid',
      sentence: must(this.#sentences[finding.fault], 'every fault has its sentence'),
      line: this.#lines,
      ...this.#reader.place,
      broken: [],
      brokenUnnamed: 0,
      ...finding,
    };
    return this.#failure;
  }
}

/** Of an end that names chains that are not whole in the database; `first` is the first of them. */
export const brokenFinding = (
  first: BrokenAnswer,
  sentence: string,
  named: Pick<Finding<'broken'>, 'broken' | 'brokenUnnamed'>,
): Finding<'broken'> => ({
  fault: 'broken',
  sentence: `${sentence}: ${describeBroken(first)}`,
  chainId: first.chain_id,
  sequence: first.sequence,
  ...named,
});

/** Undefined, which no JSON line yields, if it is not JSON. */
export function parseJson(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
