/**
 * Text that people and models read beside other text: names, ids, descriptions, reasons (contract §3).
 * Excludes characters that disguise it: controls (including line breaks), bidirectional marks and overrides,
 * line and paragraph separators.
 */
const misleading = '\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069';
export const plainTextPattern = new RegExp(`^[^${misleading}]*$`);
/** The same, and no colon. */
export const plainTextWithoutColonPattern = new RegExp(`^[^:${misleading}]*$`);

/** Each of these characters, for what shows text that was not refused. */
export const misleadingCharacter = new RegExp(`[${misleading}]`, 'g');

export const isPlainText = (text: string): boolean => plainTextPattern.test(text);

/** The same of what another system sent: text that is not empty and can be stored as it is. */
export const isLabel = (value: unknown, charsMax: number): value is string =>
  typeof value === 'string' &&
  value.length >= 1 &&
  value.length <= charsMax &&
  value.isWellFormed() &&
  isPlainText(value);

/** Continues the name of a field. */
export const plainTextDemand = 'must hold no control, bidirectional or line-separator characters';

/** The demand on a field, by its pattern. */
export const demandsByPattern: ReadonlyMap<string, string> = new Map([
  [plainTextPattern.source, plainTextDemand],
  [
    plainTextWithoutColonPattern.source,
    'must hold no colon, and no control, bidirectional or line-separator characters',
  ],
]);
