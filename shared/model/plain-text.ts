/**
 * Text that people and models read beside other text: names, ids, descriptions, reasons (contract §3).
 * Excludes characters that disguise it: controls (including line breaks), bidirectional marks and overrides,
 * line and paragraph separators.
 */
const misleading = '\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069';
export const plainTextPattern = new RegExp(`^[^${misleading}]*$`);
/** The same, and no colon. */
export const plainTextWithoutColonPattern = new RegExp(`^[^:${misleading}]*$`);

/** One joins emoji, one asks for the picture of a character: they are seen only after a picture. */
const emojiJoiners = '\\u200d\\ufe0f';
/**
 * Each of these characters, and each that shows nothing (characters without a width, tags), for what shows
 * text that was not refused.
 */
export const misleadingCharacter = new RegExp(
  `[${misleading}]|(?![${emojiJoiners}])\\p{Default_Ignorable_Code_Point}|(?<!\\p{Extended_Pictographic}[\\ufe0f\\p{Emoji_Modifier}]?)[${emojiJoiners}]`,
  'gu',
);

/**
 * With the code in the place of each of these characters, as JSON has it: those of strangers would move the
 * cursor, or disguise what a line says. Line breaks stay.
 */
export const visible = (text: string): string =>
  text.replaceAll(misleadingCharacter, (char) => (char === '\n' ? char : codesOf(char)));

const codesOf = (char: string): string =>
  char
    .split('')
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .join('');

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
