import { ApiError } from '../../shared/errors/api-error.ts';
import type { McpPinId } from '../../shared/model/ids.ts';
import type { McpPin } from '../../shared/model/mcp-pin.ts';
import { renderMcpPinItem } from '../../shared/wire/api/mcp-pin.ts';
import { parseMcpTool } from '../../shared/wire/api/mcp-tool.ts';
import { administer } from '../audit/administer.ts';
import type { Caller } from '../http/caller.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { findPin, lockedUpstream, type StoredPin, writePin, writeUpstream } from './pin-store.ts';

/**
 * A person's answer to a change. `hash`: of the definition that the person has looked at; where the server
 * has changed the tool again since, `mcp_pin_state_conflict`. A rejected change may be accepted later.
 */
export async function resolvePin(
  deps: SigningDeps,
  caller: Caller,
  wanted: { readonly pinId: McpPinId; readonly hash: string; readonly answer: 'accept' | 'reject' },
): Promise<McpPin> {
  const { pinId, hash, answer } = wanted;
  return administer(deps, caller, async (tx) => {
    const seen = await findPin(tx, caller, pinId);
    if (seen === null) throw new ApiError('mcp_pin_not_found');
    const upstream = await lockedUpstream(tx, seen);
    const pin = (await findPin(tx, caller, pinId)) ?? seen;
    // The same answer again.
    if (answer === 'accept' && pin.status === 'pinned' && pin.hash === hash) {
      return { result: pin, audited: null };
    }
    const isOpen = pin.status === 'changed' || (pin.status === 'rejected' && answer === 'accept');
    if (!isOpen) {
      throw new ApiError('mcp_pin_state_conflict', { message: `The pin is already ${pin.status}.` });
    }
    if (pin.newHash !== hash) {
      throw new ApiError('mcp_pin_state_conflict', {
        message: 'The server has changed the tool again: look at the difference once more.',
      });
    }
    const answered = { ...pin, resolvedAtMs: deps.clock.now(), resolvedBy: caller.actor.id };
    const resolved: StoredPin =
      answer === 'accept' ? accepted(answered) : { ...answered, status: 'rejected' };
    await writePin(tx, resolved);
    await writeUpstream(tx, { ...upstream, revision: upstream.revision + 1 });
    return {
      result: resolved,
      audited: {
        operation: answer === 'accept' ? 'acceptMcpPin' : 'rejectMcpPin',
        target: pinId,
        before: renderMcpPinItem(pin, deps.baseUrl),
        after: renderMcpPinItem(resolved, deps.baseUrl),
      },
    };
  });
}

function accepted(pin: StoredPin): StoredPin {
  const tool = parseMcpTool(pin.newDefinition ?? '');
  return {
    ...pin,
    status: 'pinned',
    definition: pin.newDefinition,
    hash: pin.newHash,
    bodyHash: tool?.bodyHash ?? null,
    newDefinition: null,
    newHash: null,
    change: null,
    resembles: null,
  };
}
