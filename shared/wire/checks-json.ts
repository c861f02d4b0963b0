/**
 * The JSON of a list of checks. Decisions share their lists, frozen (`listChecks`), and each list is written
 * twice, in the answer and in the record: so its text is made once. There are at most 2,048 such lists.
 */
export function checksJson(checks: readonly string[]): string {
  const known = texts.get(checks);
  if (known !== undefined) return known;
  const text = JSON.stringify(checks);
  // Any other list could change after its text was made.
  if (Object.isFrozen(checks)) texts.set(checks, text);
  return text;
}

const texts = new WeakMap<readonly string[], string>();
