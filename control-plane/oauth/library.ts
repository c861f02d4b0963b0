/**
 * `oidc-provider`, to be imported where it is first needed. On Node 20 it writes a line to standard error
 * that asks for Node 22, among log lines that are JSON. Which versions this service runs on is said in
 * package.json, and its tests run on the oldest of them; so that one line is left out while the library
 * loads, and every other warning passes. A module and no function: it is evaluated once, whoever imports it
 * at the same moment.
 */
const { warn } = console;
console.warn = (...words: unknown[]) => {
  if (!isAboutNodeVersion(words[0])) warn.apply(console, words);
};

export const library = await import('oidc-provider').finally(() => {
  console.warn = warn;
});

function isAboutNodeVersion(text: unknown): boolean {
  return typeof text === 'string' && text.includes('oidc-provider WARNING: Unsupported runtime. Use Node.js');
}
