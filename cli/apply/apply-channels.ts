import type { ChannelCreation, ChannelUpdate } from '../../clients/node/src/generated/api.ts';
import { textHash } from '../../shared/crypto/content-hash.ts';
import { type ChannelEvent, type ChannelKind, channelEvents } from '../../shared/model/channel.ts';
import type { Environment } from '../../shared/runtime/settings.ts';
import { distinctChannelEvents, storedTarget, targetFault } from '../../shared/wire/api/channel.ts';
import type { Work } from '../base/host.ts';
import type { Account, Found } from './apply-current.ts';
import { type Members, within } from './apply-desired.ts';
import type { ApplyFile, ReadFile } from './apply-file.ts';

/** A channel of a file. Its target is in no plan and no file. */
export interface DesiredChannel {
  readonly key: string;
  readonly name: string;
  readonly members: Members;
  /** Null: it stays as it is in the service. */
  readonly target: string | null;
}

/** Throws UsageError with the line of one that the service would refuse. */
export function desiredChannels(file: ReadFile, account: Account, env: Environment): DesiredChannel[] {
  return (file.content.channels ?? []).map((entry, index) => {
    const at = `channels.${index}`;
    const { key = '', name, kind, gate, target_env, after_s = 0, events, status } = entry;
    if (gate !== undefined && !isKnown(gate, file.content, account.gates))
      throw file.fault(`${at}.gate`, `There is no gate "${gate}", neither in the file nor in the account.`);
    const current = account.channels.get(key) ?? null;
    const given = env[target_env] || null;
    if (given === null && current === null)
      throw file.fault(`${at}.target_env`, `${target_env} is not set: it holds the target of a new channel.`);
    const fault = given === null ? null : targetFault(kind, given);
    if (fault !== null) throw file.fault(`${at}.target_env`, `The target in ${target_env} ${fault}.`);
    const stored = given === null ? null : storedTarget(kind, given);
    const target = stored === null || textHash(stored) === current?.targetHash ? null : stored;
    return {
      ...{ key, name, target },
      members: {
        kind,
        gate: gate ?? null,
        ...(current === null ? {} : { target: target === null ? 'stays' : 'changes' }),
        after_s,
        events: within(file, at, () => distinctChannelEvents(events ?? channelEvents)),
        ...(status === undefined ? {} : { status }),
      },
    };
  });
}

const isKnown = (gate: string, { gates = [] }: ApplyFile, found: Found): boolean =>
  found.has(gate) || gates.some(({ key }) => key === gate);

type Client = Work['client'];

/** With the channel's secret, where it has one. */
export const createChannelOf = async (
  client: Client,
  { name, members, target }: DesiredChannel,
  gateId: string | null,
) => {
  const { kind, after_s, events, status } = members as {
    readonly kind: ChannelKind;
    readonly after_s: number;
    readonly events: readonly ChannelEvent[];
    readonly status?: 'enabled' | 'disabled';
  };
  const body = { name, kind, target: target ?? '', gate_id: gateId, after_s, events };
  const made = await client.channels.create(body as ChannelCreation);
  if (status === 'disabled') await client.channels.update(made.channel_id, { status });
  return made;
};

export const changeChannel = (client: Client, id: string, { members, target }: DesiredChannel) => {
  const { kind: _kind, gate: _gate, target: _stays, ...body } = members;
  return client.channels.update(id, {
    ...body,
    ...(target === null ? {} : { target }),
  } as ChannelUpdate);
};
