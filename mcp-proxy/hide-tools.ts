import { isJsonObject, type JsonObject } from '../shared/crypto/json-object.ts';
import type { ShownTools } from './permitted-tools.ts';

/** Removes from a server's message the tools that the client may not see. */
export type HideTools = (message: unknown) => Promise<unknown>;

const hiddenMeta = 'agent-trust/hidden_tools';

/**
 * `shownTools` is called only for a message that has tools: the answer to `tools/list`, on whatever stream it
 * comes. Other messages, and lists without hidden tools, are unchanged.
 */
export const toolHider =
  (shownTools: () => Promise<ShownTools>): HideTools =>
  async (message) => {
    const result = isJsonObject(message) ? message['result'] : null;
    if (!isJsonObject(result) || !Array.isArray(result['tools'])) return message;
    const tools: readonly unknown[] = result['tools'];
    const shown = await shownTools();
    const kept = tools.filter(
      (tool) =>
        shown.kind === 'some' &&
        isJsonObject(tool) &&
        typeof tool['name'] === 'string' &&
        shown.has(tool['name']),
    );
    if (kept.length === tools.length && result['cacheScope'] === undefined) return message;
    const why = shown.kind === 'none' ? { reason: shown.reason, detail: shown.detail } : {};
    return {
      ...(message as JsonObject),
      result: {
        ...result,
        tools: kept,
        // Another passport sees other tools: no cache may share this list.
        ...(result['cacheScope'] === undefined ? {} : { cacheScope: 'private' }),
        _meta: {
          ...(isJsonObject(result['_meta']) ? result['_meta'] : {}),
          [hiddenMeta]: { count: tools.length - kept.length, ...why },
        },
      },
    };
  };
