/**
 * The JSON of a list of checks. Decisions share frozen lists (`listChecks`), and each decision writes its
 * list twice, in the answer and in the record, so texts are cached. There are at most 2,048 such lists.
 */
export function checksJson(checks: readonly string[]): string {
  const known = texts.get(checks);
  if (known !== undefined) return known;
  const text = JSON.stringify(checks);
  // An unfrozen list could change after it is cached.
  if (Object.isFrozen(checks)) texts.set(checks, text);
  return text;
}

const texts = new WeakMap<readonly string[], string>();
