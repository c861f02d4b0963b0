import type { PiiType } from '../../shared/model/constraints.ts';
import { addresses } from './corpus-addresses.ts';
import { numbers } from './corpus-numbers.ts';
import { phones } from './corpus-phones.ts';

/**
 * Texts written the same way: each «value» in them is personal data of this type; a text without any is a
 * near miss.
 */
export interface Group {
  readonly type: PiiType;
  /** The member that the texts are the value of; none: they stand alone. */
  readonly name?: string;
  readonly texts: readonly string[];
}

export interface Labelled {
  readonly text: string;
  readonly name: string;
  readonly values: readonly { readonly type: PiiType; readonly value: string }[];
}

/**
 * What a person would call personal data, labelled by the author of the detectors before they were tuned.
 * Every value is invented, published as a sample, or from a range that is reserved for examples: example.com
 * and its kind, RFC 5737 and RFC 3849 addresses, test cards of the networks, samples of the IBAN registry,
 * numbers that regulators keep for films. Known misses stay in, under `hard`.
 */
export const corpus: readonly Labelled[] = [...addresses, ...numbers, ...phones].flatMap(
  ({ type, name = '', texts }) => texts.map((text) => label(text, type, name)),
);

/** `«iban|DE89…»` is of another type than its group. */
function label(marked: string, type: PiiType, name: string): Labelled {
  const values = Array.from(marked.matchAll(/«(?:([a-z_]+)\|)?([^»]+)»/g), ([, other, value = '']) => ({
    type: (other as PiiType | undefined) ?? type,
    value,
  }));
  return { text: marked.replace(/«(?:[a-z_]+\|)?([^»]+)»/g, '$1'), name, values };
}
