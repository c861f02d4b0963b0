/** More levels of encoding hide something on purpose; deeper ones are not scanned. */
const roundsMax = 5;

/**
 * The decoded forms of a folded text that is a URL, a query or form-encoded (contract §7), one more level
 * each time: `%20` is a blank, and so is `+` in a text with fields. Invalid encodings stay, or become U+FFFD.
 * Yields only encoded words and their surroundings, because a long text with one link must not count twice;
 * nothing for other texts. Each is at most as long as the text and takes one walk.
 */
export function* decodings(text: string): Generator<string> {
  let current = encodedParts(text);
  for (let round = 0; round < roundsMax; round += 1) {
    const decoded = decodeOnce(current);
    if (decoded === current) return;
    yield decoded;
    current = decoded;
  }
}

/** Whether a decoded text is still encoded. */
export const isEncoded = (text: string): boolean => decodeOnce(text) !== text;

/**
 * Personal data with blanks may be encoded in part. A number depends on the 32 characters before it, and has
 * at most 64 in groups.
 */
const besideChars = 64;
const partEnd = '\0';

/** The encoded words with their neighbours; overlaps are merged. */
function encodedParts(text: string): string {
  if (!/[%+]/.test(text)) return '';
  const parts: string[] = [];
  let [start, end] = [0, -1];
  for (const { 0: word, index } of text.matchAll(/\S+/g)) {
    if (!isEncoded(word)) continue;
    const from = blankBefore(text, index - besideChars);
    if (from > end) {
      if (end >= 0) parts.push(text.slice(start, end));
      start = from;
    }
    end = blankBehind(text, index + word.length + besideChars);
  }
  if (end >= 0) parts.push(text.slice(start, end));
  return parts.join(partEnd);
}

/** Extends to whole words and numbers, up to this length. */
const wordCharsMax = 64;

function blankBefore(text: string, at: number): number {
  for (let place = at; place > Math.max(0, at - wordCharsMax); place -= 1) {
    if (isBlankAt(text, place)) return place;
  }
  return Math.max(0, at - wordCharsMax);
}

function blankBehind(text: string, at: number): number {
  const end = Math.min(text.length, at + wordCharsMax);
  for (let place = at; place < end; place += 1) if (isBlankAt(text, place)) return place;
  return end;
}

const isBlankAt = (text: string, index: number): boolean => /\s/.test(text.charAt(index));

function decodeOnce(text: string): string {
  const spaced = text.includes('+') && field.test(text) ? text.replaceAll('+', ' ') : text;
  return spaced.includes('%') ? spaced.replace(encoded, decodeRun) : spaced;
}

/** `card=…`, alone or in a query; not a final `=`, as at the end of Base64. */
const field = /[?&]|=[\w%+]/;
const encoded = /(?:%[0-9a-f]{2})+/gi;

function decodeRun(run: string): string {
  try {
    return decodeURIComponent(run);
  } catch {
    // Invalid UTF-8: decode the ASCII bytes only.
    return run.replace(/%(?:([0-7][0-9a-f])|..)/gi, (_byte, ascii: string | undefined) =>
      ascii === undefined ? '\ufffd' : String.fromCharCode(Number.parseInt(ascii, 16)),
    );
  }
}
