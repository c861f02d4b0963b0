/** Who encodes more often than that hides something on purpose. */
const roundsMax = 3;

/**
 * What a folded text says where it is a URL, a query or form-encoded (contract §7), once more decoded each
 * time: `%20` is a blank, and so is `+` where the text has fields. What is no valid encoding stays, or is
 * U+FFFD. Nothing for other texts. Each has at most the length of the text, and costs as much as one walk.
 */
export function* decodings(text: string): Generator<string> {
  let current = text;
  for (let round = 0; round < roundsMax; round += 1) {
    const decoded = decodeOnce(current);
    if (decoded === current) return;
    yield decoded;
    current = decoded;
  }
}

function decodeOnce(text: string): string {
  const spaced = text.includes('+') && field.test(text) ? text.replaceAll('+', ' ') : text;
  return spaced.includes('%') ? spaced.replace(encoded, decodeRun) : spaced;
}

/** `card=…`, alone or in a query. */
const field = /[=?&]/;
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
