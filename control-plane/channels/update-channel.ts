import { isDeepStrictEqual } from 'node:util';
import type { Static } from 'typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { Channel } from '../../shared/model/channel.ts';
import type { ChannelId } from '../../shared/model/ids.ts';
import { secondMs } from '../../shared/model/time.ts';
import {
  type ChannelUpdate,
  channelReadOnly,
  distinctChannelEvents,
  renderChannel,
} from '../../shared/wire/api/channel.ts';
import { refuseChanges } from '../../shared/wire/api/read-only.ts';
import { administer } from '../audit/administer.ts';
import type { Caller } from '../http/caller.ts';
import type { TagCondition } from '../http/entity-tag.ts';
import { channelOnRecord } from './channel-on-record.ts';
import { channelTag, hasChannelNamed, lockChannel, lockNames, updateChannelRow } from './channel-store.ts';
import { openTarget, type ReadTarget, readTarget, sealTarget } from './channel-target.ts';
import type { ChannelDeps } from './deps.ts';

/**
 * Changes what is present. The target as `GET` shows it means the target that is there. Another target, or
 * enabling, begins anew: what failed before counts no more. What waits for a disabled channel goes out when
 * it is enabled again, if the approval is still pending then.
 */
export async function updateChannel(
  deps: ChannelDeps,
  caller: Caller,
  {
    channelId,
    update,
    ifMatch,
  }: {
    readonly channelId: ChannelId;
    readonly update: Static<typeof ChannelUpdate>;
    readonly ifMatch: TagCondition;
  },
): Promise<Channel> {
  return administer(deps, caller, async (tx) => {
    if (update.name !== undefined) await lockNames(tx, caller);
    const locked = await lockChannel(tx, caller, channelId);
    if (locked === null) throw new ApiError('channel_not_found');
    const { channel: before } = locked;
    if (!ifMatch(channelTag(before))) throw new ApiError('precondition_failed');
    refuseChanges(update, renderChannel(before), channelReadOnly);
    const target =
      update.target === undefined || update.target === before.shownTarget
        ? null
        : readTarget(deps, before.kind, update.target);
    const after = changed(before, update, target);
    if (after.name !== before.name && (await hasChannelNamed(tx, caller, after.name)))
      throw new ApiError('channel_name_conflict', { param: 'name' });
    if (isDeepStrictEqual(after, before)) return { result: before, audited: null };
    const isAnew = after.status !== before.status || after.targetHash !== before.targetHash;
    const fresh = isAnew ? { failingSinceMs: null, failures: 0, lastError: null } : {};
    const result: Channel = {
      ...after,
      ...fresh,
      version: before.version + 1,
      updatedAtMs: deps.clock.now(),
    };
    const sealedTarget =
      target === null
        ? locked.sealedTarget
        : sealTarget(deps, channelId, {
            ...openTarget(deps.sealer, channelId, locked.sealedTarget),
            target: target.target,
          });
    await updateChannelRow(tx, result, { sealedTarget, isAnew });
    return {
      result,
      audited: {
        operation: 'updateChannel',
        target: channelId,
        before: channelOnRecord(before),
        after: channelOnRecord(result),
      },
    };
  });
}

function changed(before: Channel, update: Static<typeof ChannelUpdate>, target: ReadTarget | null): Channel {
  const status = update.status ?? before.status;
  const reason = before.status === 'disabled' ? before.disabledReason : 'owner';
  return {
    ...before,
    name: update.name ?? before.name,
    afterMs: update.after_s === undefined ? before.afterMs : update.after_s * secondMs,
    events: update.events === undefined ? before.events : distinctChannelEvents(update.events),
    status,
    disabledReason: status === 'enabled' ? null : reason,
    ...(target === null ? {} : { shownTarget: target.shownTarget, targetHash: target.targetHash }),
  };
}
