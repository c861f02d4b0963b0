/**
 * What may be kept of an endpoint's answer. It is written by strangers and read by people who look for a
 * mistake: what looks like a secret is taken out, because an error page likes to show the configuration of
 * the program that made it.
 */
export function redactAnswer(body: Uint8Array, { isCut }: { readonly isCut: boolean }): string {
  const text = new TextDecoder().decode(body);
  // A secret that is cut in its middle would be too short to be recognised.
  const whole = isCut ? text.replace(/[\w+/=.~:-]*\uFFFD?$/, '') : text;
  const printable = whole.replace(/[^\P{Cc}\n\t]/gu, ' ');
  return suspects.reduce((kept, suspect) => kept.replace(suspect, removed), printable);
}

const removed = '[redacted]';

const suspects: readonly RegExp[] = [
  // A whole block, also one without its end.
  /-----BEGIN [A-Z ]+-----[^-]*(?:-----END [A-Z ]+-----)?/g,
  // What is named as one: "api_key": "...", password=..., Authorization: Bearer ...
  /(?<=(?:password|passwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|authorization|cookie|session)\w{0,16}["']?\s{0,4}[:=]\s{0,4}["']?(?:(?:bearer|basic)\s{1,4})?)[^\s"',;&<>}]+/gi,
  /(?<=\b(?:bearer|basic)\s{1,4})[\w+/=.~-]{8,}/gi,
  // User and password of a connection string.
  /(?<=:\/\/)[^\s/@:]{1,128}:[^\s/@]{1,256}(?=@)/g,
  // Prefixes that announce one, ours and those of others.
  /\b(?:at_live_|at_test_|whsec_|ed25519_private:|sk_|rk_|pk_|ghp_|gho_|ghs_|github_pat_|glpat-|xox[abprs]-|AKIA|ASIA|AIza|eyJ)[\w+/=.-]{8,}/g,
  // Anything long that only a machine would write and that is no UUID.
  /(?<![\w+/=-])(?![0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![\w+/=-]))(?=[\w+/=-]{0,512}\d)[\w+/=-]{32,}/gi,
];
