import { isJsonObject, type JsonObject } from '../shared/crypto/json-object.ts';
import type { PermissionKey } from '../shared/model/permission.ts';
import type { ShownTools } from './permitted-tools.ts';

/** Lists, with the permission for what stands in them; null: that of each tool. */
const lists: readonly (readonly [member: string, meta: string, permission: PermissionKey | null])[] = [
  ['tools', 'agent-trust/hidden_tools', null],
  ['resources', 'agent-trust/hidden_resources', 'resources:read' as PermissionKey],
  ['resourceTemplates', 'agent-trust/hidden_resources', 'resources:read' as PermissionKey],
  ['prompts', 'agent-trust/hidden_prompts', 'prompts:get' as PermissionKey],
];

/**
 * A result without what the client may not use: a list of tools, resources, templates or prompts, on whatever
 * stream it comes. `seen`: the tools whose pins are in force; null: the result has none. `shown` is called
 * for lists alone; null: permissions hide nothing. Other results, and lists that lose nothing, are unchanged.
 */
export async function hideUnpermitted(
  result: JsonObject,
  by: {
    readonly seen: readonly unknown[] | null;
    readonly shown: (() => Promise<ShownTools>) | null;
  },
): Promise<JsonObject> {
  let hidden = result;
  for (const [member, meta, permission] of lists) {
    // Readers in Go take a member in other letters for it.
    const others = Object.keys(hidden).filter((name) => name !== member && sameInGo(name, member));
    if (others.length > 0) {
      hidden = Object.fromEntries(Object.entries(hidden).filter(([name]) => !others.includes(name)));
    }
    const all = hidden[member];
    if (!Array.isArray(all)) continue;
    const pinned = member === 'tools' && by.seen !== null ? by.seen : all;
    const shown = by.shown === null ? everything : await by.shown();
    const kept = pinned.filter((item: unknown) => mayShow(shown, permission, item));
    hidden = withList(hidden, { member, meta, kept, count: all.length - kept.length, shown });
  }
  return hidden;
}

const sameInGo = (name: string, member: string): boolean => name.toLowerCase() === member.toLowerCase();

const everything = { kind: 'all' } as const;

function mayShow(
  shown: ShownTools | typeof everything,
  permission: PermissionKey | null,
  item: unknown,
): boolean {
  if (shown.kind === 'all') return true;
  if (shown.kind === 'none') return false;
  if (permission !== null) return shown.grants(permission);
  return isJsonObject(item) && typeof item['name'] === 'string' && shown.has(item['name']);
}

function withList(
  result: JsonObject,
  list: {
    readonly member: string;
    readonly meta: string;
    readonly kept: readonly unknown[];
    readonly count: number;
    readonly shown: ShownTools | typeof everything;
  },
): JsonObject {
  const { member, meta, kept, count, shown } = list;
  if (count === 0 && (result['cacheScope'] === undefined || shown.kind === 'all')) return result;
  const why = shown.kind === 'none' ? { reason: shown.reason, detail: shown.detail } : {};
  return {
    ...result,
    [member]: kept,
    // Another passport sees other items: no cache may share this list.
    ...(result['cacheScope'] === undefined ? {} : { cacheScope: 'private' }),
    _meta: { ...(isJsonObject(result['_meta']) ? result['_meta'] : {}), [meta]: { count, ...why } },
  };
}
