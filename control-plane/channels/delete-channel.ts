import { ApiError } from '../../shared/errors/api-error.ts';
import type { ChannelId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { administer } from '../audit/administer.ts';
import type { Caller } from '../http/caller.ts';
import type { TagCondition } from '../http/entity-tag.ts';
import { channelOnRecord } from './channel-on-record.ts';
import { channelTag, deleteChannelRow, lockChannel } from './channel-store.ts';
import type { ChannelDeps } from './deps.ts';

/** Deletes a channel for good; what has not been sent to it never is. Resolves to the moment of it. */
export function deleteChannel(
  deps: ChannelDeps,
  caller: Caller,
  { channelId, ifMatch }: { readonly channelId: ChannelId; readonly ifMatch: TagCondition },
): Promise<UnixMillis> {
  return administer(deps, caller, async (tx) => {
    const locked = await lockChannel(tx, caller, channelId);
    if (locked === null) throw new ApiError('channel_not_found');
    if (!ifMatch(channelTag(locked.channel))) throw new ApiError('precondition_failed');
    await deleteChannelRow(tx, channelId);
    return {
      result: deps.clock.now(),
      audited: {
        operation: 'deleteChannel',
        target: channelId,
        before: channelOnRecord(locked.channel),
        after: null,
      },
    };
  });
}
