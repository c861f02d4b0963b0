/** Who encodes more often than that hides something on purpose: what is below is not looked at. */
const roundsMax = 5;

/**
 * What a folded text says where it is a URL, a query or form-encoded (contract §7), once more decoded each
 * time: `%20` is a blank, and so is `+` where the text has fields. What is no valid encoding stays, or is
 * U+FFFD. Only the encoded words and what is right beside them: a long text with one link in it must not
 * count twice. Nothing for other texts. Each has at most the length of the text, and costs as much as one
 * walk.
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

/** Whether there is more to decode in a text that is decoded. */
export const isEncoded = (text: string): boolean => decodeOnce(text) !== text;

/**
 * Personal data that has blanks in it may be encoded in part. A number is found by the 32 characters before
 * it, and written in groups it has no more than 64.
 */
const besideChars = 64;
const partEnd = '\0';

/** The words with something to decode, with their neighbours; what is in two of them is there once. */
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

/** Half a word, or half a number, would be another one: within reason. */
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

/** `card=…`, alone or in a query; no `=` behind which nothing comes, as at the end of Base64. */
const field = /[?&]|=[\w%+]/;
const encoded = /(?:%[0-9a-f]{2})+/gi;

function decodeRun(run: string): string {
  try {
    return decodeURIComponent(run);
  } catch {
    // No UTF-8: what is ASCII is what it says all the same.
    return run.replace(/%(?:([0-7][0-9a-f])|..)/gi, (_byte, ascii: string | undefined) =>
      ascii === undefined ? '\ufffd' : String.fromCharCode(Number.parseInt(ascii, 16)),
    );
  }
}
