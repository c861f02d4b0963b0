import { isJsonObject } from '../../shared/crypto/json-object.ts';
import { type Found, isSame } from './apply-current.ts';
import type { Members } from './apply-desired.ts';

export type Kind = 'wallet' | 'issuer' | 'template' | 'gate' | 'catalog' | 'webhook' | 'channel';

/** One call of the service. */
export interface Step {
  readonly kind: Kind;
  readonly verb: 'create' | 'change' | 'delete';
  /** URL of a webhook. Of a catalog: the name of its gate. */
  readonly name: string;
  /** Null: it is made by this call, or by one before it. */
  readonly id: string | null;
  readonly etag: string | undefined;
  readonly before: Members;
  readonly after: Members;
}

export interface Label {
  readonly name: string;
  readonly value: string;
}

export function stepOf(
  kind: Kind,
  name: string,
  current: { readonly id: string; readonly members: Members; readonly etag?: string | undefined } | null,
  after: Members,
): Step[] {
  if (current === null) return [{ kind, verb: 'create', name, id: null, etag: undefined, before: {}, after }];
  // What the file does not name stays as it is.
  const before = Object.fromEntries(Object.keys(after).map((member) => [member, current.members[member]]));
  if (isSame(before, after)) return [];
  return [{ kind, verb: 'change', name, id: current.id, etag: current.etag, before, after }];
}

export function idsWith(found: Found, { name, value }: Label, kept: ReadonlySet<string>): readonly string[] {
  return [...found.values()].flatMap((each) =>
    each.flatMap(({ id, members: { labels } }) =>
      (labels as Members)[name] === value && !kept.has(id) ? id : [],
    ),
  );
}

export interface Change {
  /** `constraints.spend_limits.daily_usd` */
  readonly member: string;
  /** Absent: it is new. */
  readonly before?: unknown;
  /** Absent: it goes. */
  readonly after?: unknown;
}

/** The members that differ, each by its path; lists as a whole. */
export function changesOf(before: unknown, after: unknown, at = ''): readonly Change[] {
  if (isSame(before, after)) return [];
  if (isJsonObject(before ?? {}) && isJsonObject(after ?? {}) && !(before === null && after === null)) {
    const [old, next] = [(before ?? {}) as Members, (after ?? {}) as Members];
    const names = [...new Set([...Object.keys(old), ...Object.keys(next)])];
    if (names.length > 0 || at === '')
      return names.flatMap((name) => changesOf(old[name], next[name], at === '' ? name : `${at}.${name}`));
  }
  return [
    { member: at, ...(before === undefined ? {} : { before }), ...(after === undefined ? {} : { after }) },
  ];
}

/** The merge patch that makes the one of the other (RFC 7396). */
export function mergePatchOf(before: Members, after: Members): Members {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return Object.fromEntries(
    names.flatMap((name): [string, unknown][] => {
      const [old, next] = [before[name], after[name]];
      if (isSame(old, next)) return [];
      if (next === undefined) return [[name, null]];
      return [[name, isJsonObject(old) && isJsonObject(next) ? mergePatchOf(old, next) : next]];
    }),
  );
}
