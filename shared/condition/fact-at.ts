import type { Variables } from './variables.ts';

/** The value at a pointer of `readsOf`; undefined: absent. */
export function factAt(variables: Variables, pointer: string): unknown {
  let value: unknown = variables;
  for (const part of pointer.split('/').slice(1)) {
    const name = part.replaceAll('~1', '/').replaceAll('~0', '~');
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
    if (!Object.hasOwn(value, name)) return undefined;
    value = (value as Record<string, unknown>)[name];
  }
  return value;
}
