import type { Static } from 'typebox';
import { makeWebhookSecret, webhookSecretBytes } from '../../shared/crypto/webhook-signature.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { type Channel, channelEvents } from '../../shared/model/channel.ts';
import { type GateId, isId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { secondMs } from '../../shared/model/time.ts';
import { type ChannelCreation, distinctChannelEvents } from '../../shared/wire/api/channel.ts';
import type { Transaction } from '../base/database.ts';
import { countChannelsLocked, hasChannelNamed, hasGate, insertChannel } from './channel-store.ts';
import { readTarget, sealTarget } from './channel-target.ts';
import type { ChannelDeps } from './deps.ts';
import { channelsLimits } from './limits.ts';

/** A channel at the moment at which its secret is shown; null for kinds that have none. */
export interface ChannelWithSecret {
  readonly channel: Channel;
  readonly secret: string | null;
}

/** Approvals that are opened from the commit on are told to it. */
export async function createChannel(
  tx: Transaction,
  deps: Pick<ChannelDeps, 'clock' | 'random' | 'sealer' | 'outbound' | 'mailer'>,
  { owner, wanted }: { readonly owner: Owner; readonly wanted: Static<typeof ChannelCreation> },
): Promise<ChannelWithSecret> {
  const { kind } = wanted;
  const { target, ...shown } = readTarget(deps, kind, wanted.target);
  const events = distinctChannelEvents(wanted.events ?? channelEvents);
  const gateId = await gateOf(tx, owner, wanted.gate_id ?? null);
  await refuseTooMany(tx, owner, gateId);
  if (await hasChannelNamed(tx, owner, wanted.name))
    throw new ApiError('channel_name_conflict', { param: 'name' });
  const nowMs = deps.clock.now();
  const channel: Channel = {
    channelId: deps.random.newId('chan', nowMs),
    accountId: owner.accountId,
    mode: owner.mode,
    name: wanted.name,
    kind,
    gateId,
    ...shown,
    afterMs: (wanted.after_s ?? 0) * secondMs,
    events,
    status: 'enabled',
    disabledReason: null,
    failingSinceMs: null,
    failures: 0,
    lastError: null,
    lastSentAtMs: null,
    version: 1,
    createdAtMs: nowMs,
    updatedAtMs: nowMs,
  };
  const secret = kind === 'webhook' ? makeWebhookSecret(deps.random.bytes(webhookSecretBytes)) : null;
  await insertChannel(tx, channel, sealTarget(deps, channel.channelId, { target, secret }));
  return { channel, secret };
}

async function gateOf(tx: Transaction, owner: Owner, given: string | null): Promise<GateId | null> {
  if (given === null) return null;
  if (!isId('gate', given) || !(await hasGate(tx, owner, given))) throw new ApiError('gate_not_found');
  return given;
}

async function refuseTooMany(tx: Transaction, owner: Owner, gateId: GateId | null): Promise<void> {
  const { total, here } = await countChannelsLocked(tx, owner, gateId);
  if (here >= channelsLimits.channelsPerPlaceMax) {
    throw new ApiError('invalid_request', {
      message: `${gateId === null ? 'An account' : 'A gate'} has at most ${channelsLimits.channelsPerPlaceMax} channels; delete one first.`,
    });
  }
  if (total >= channelsLimits.channelsPerAccountMax) {
    throw new ApiError('invalid_request', {
      message: `An account has at most ${channelsLimits.channelsPerAccountMax} channels in each mode, those of its gates included.`,
    });
  }
}
