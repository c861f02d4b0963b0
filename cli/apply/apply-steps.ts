import { isJsonObject } from '../../shared/crypto/json-object.ts';
import { keyLabel } from '../../shared/model/labels.ts';
import { type Current, type Found, isSame } from './apply-current.ts';
import type { Members } from './apply-desired.ts';

export type Kind = 'wallet' | 'issuer' | 'template' | 'gate' | 'catalog' | 'webhook' | 'channel';

/** One call of the service. */
export interface Step {
  readonly kind: Kind;
  readonly verb: 'create' | 'change' | 'delete';
  /** As `Found` has it. Of a catalog: that of its gate. */
  readonly key: string;
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
  { key, name }: Pick<Step, 'key' | 'name'>,
  current: (Current & { readonly etag?: string | undefined }) | null,
  wanted: Members,
): Step[] {
  const of = { kind, key, name } as const;
  if (current === null)
    return [{ ...of, verb: 'create', id: null, etag: undefined, before: {}, after: wanted }];
  // A key finds it under its old name.
  const title = kind === 'webhook' ? 'url' : 'name';
  const after = current.name === name ? wanted : { ...wanted, [title]: name };
  const all = { ...current.members, [title]: current.name };
  // What the file does not name stays as it is.
  const before = Object.fromEntries(
    Object.keys(after).map((member) => [member, all[member as keyof typeof all]]),
  );
  if (isSame(before, after)) return [];
  return [{ ...of, verb: 'change', id: current.id, etag: current.etag, before, after }];
}

/**
 * Another run at the same moment may be quicker: a thing is made once of its name, or of its name and key.
 * Nothing where the service cannot tell it from others.
 */
export function onlyNew({ key, name, after }: Pick<Step, 'key' | 'name' | 'after'>): { ifNoneMatch?: '*' } {
  const { labels = {}, metadata = {} } = after as { readonly labels?: object; readonly metadata?: object };
  return key === name || keyLabel in labels || keyLabel in metadata ? { ifNoneMatch: '*' } : {};
}

export function idsWith(found: Found, { name, value }: Label, kept: ReadonlySet<string>): readonly string[] {
  return [...found.values()].flatMap(({ id, members: { labels } }) =>
    (labels as Members)[name] === value && !kept.has(id) ? id : [],
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
