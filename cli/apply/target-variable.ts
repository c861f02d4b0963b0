/**
 * The variable that `export` names: `payments` has `CHANNEL_PAYMENTS_TARGET`. Adds it to those that are used:
 * names that differ in other letters alone get different ones.
 */
export function targetVariable(name: string, used: Set<string>): string {
  const words = name.toUpperCase().match(/[A-Z0-9]+/g) ?? [];
  const base = ['CHANNEL', ...words].join('_').slice(0, variableCharsMax);
  for (let number = 1; ; number++) {
    const variable = `${base}${number === 1 ? '' : `_${number}`}_TARGET`;
    if (used.has(variable)) continue;
    used.add(variable);
    return variable;
  }
}

/** With its ending it is still one that a file may name. */
const variableCharsMax = 100;
