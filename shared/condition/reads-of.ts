import type { CheckedForm, FormNode } from './form.ts';

/**
 * JSON pointers to what a form reads, each once, sorted: `/request/...`, `/passport/...`, `/claims/...` or
 * `/user`. A list, or a map that is read by a computed key, is read whole. What `gate` and `now` are, the
 * record of the decision says.
 */
export function readsOf(form: CheckedForm): readonly string[] {
  const found = new Set<string>();
  collect(form.expr, found);
  const sorted = [...found].sort();
  return sorted.filter((pointer) => !sorted.some((other) => pointer.startsWith(`${other}/`)));
}

/** Names from the variable on; null: not a chain of members of a variable. */
export function chainOf(node: FormNode): readonly string[] | null {
  const names: string[] = [];
  let from = node;
  if (from[0] === 'has') from = ['select', from[1], from[2]];
  while (from[0] === 'select') {
    names.unshift(from[2]);
    from = from[1];
  }
  return from[0] === 'var' ? [from[1], ...names] : null;
}

const pointerOf = (names: readonly string[]): string =>
  names.map((name) => `/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');

function collect(node: FormNode, found: Set<string>): void {
  const chain = chainOf(node);
  if (chain !== null) {
    if (chain[0] !== 'gate' && chain[0] !== 'now') found.add(pointerOf(chain));
    return;
  }
  for (const part of node.slice(1)) if (Array.isArray(part)) collect(part as unknown as FormNode, found);
}
