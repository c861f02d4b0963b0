import type { ChannelCreation, ChannelUpdate } from '../../clients/node/src/generated/api.ts';
import { textHash } from '../../shared/crypto/content-hash.ts';
import { type ChannelEvent, type ChannelKind, channelEvents } from '../../shared/model/channel.ts';
import type { Environment } from '../../shared/runtime/settings.ts';
import { distinctChannelEvents } from '../../shared/wire/channel.ts';
import { canonicalEmail } from '../../shared/wire/email.ts';
import type { Account, Found } from './apply-current.ts';
import type { Members } from './apply-desired.ts';
import type { ApplyFile, ReadFile } from './apply-file.ts';
import type { Work } from './host.ts';

/** A channel of a file. Its target is in no plan and no file: only its hash is compared. */
export interface DesiredChannel {
  readonly name: string;
  readonly members: Members;
  /** Null: the variable is not set, and the target stays as it is in the service. */
  readonly target: string | null;
}

/** Throws UsageError with the line of one that the service would refuse. */
export function desiredChannels(file: ReadFile, account: Account, env: Environment): DesiredChannel[] {
  const names = new Set<string>();
  return (file.content.channels ?? []).map((entry, index) => {
    const at = `channels.${index}`;
    const { name, kind, gate, target_env, after_s = 0, events, status } = entry;
    if (names.has(name)) throw file.fault(at, `"${name}" is in channels twice.`);
    names.add(name);
    if (gate !== undefined && !isKnown(gate, file.content, account.gates))
      throw file.fault(`${at}.gate`, `There is no gate "${gate}", neither in the file nor in the account.`);
    const given = env[target_env];
    if ((given === undefined || given === '') && !account.channels.has(name))
      throw file.fault(`${at}.target_env`, `${target_env} is not set: it holds the target of a new channel.`);
    const target = given === undefined || given === '' ? null : storedForm(kind, given);
    return {
      name,
      target,
      members: {
        kind,
        gate: gate ?? null,
        ...(target === null ? {} : { target_hash: textHash(target) }),
        after_s,
        events: distinctChannelEvents(events ?? channelEvents),
        ...(status === undefined ? {} : { status }),
      },
    };
  });
}

const isKnown = (gate: string, { gates = [] }: ApplyFile, found: Found): boolean =>
  found.has(gate) || gates.some(({ name }) => name === gate);

/** As the service keeps it, for the hash; what it refuses, it refuses by itself. */
function storedForm(kind: ChannelKind, given: string): string {
  if (kind !== 'email') return given;
  const parsed = canonicalEmail(given);
  return 'fault' in parsed ? given : parsed.email;
}

/**
 * The variable that `export` names: `payments` has `CHANNEL_PAYMENTS_TARGET`. Adds it to those that are used:
 * names that differ in other letters alone get different ones.
 */
export function targetVariable(name: string, used: Set<string>): string {
  const words = name.toUpperCase().match(/[A-Z0-9]+/g) ?? [];
  const base = ['CHANNEL', ...words].join('_').slice(0, variableCharsMax);
  for (let number = 1; ; number++) {
    const variable = `${base}${number === 1 ? '' : `_${number}`}_TARGET`;
    if (used.has(variable)) continue;
    used.add(variable);
    return variable;
  }
}

/** With its ending it is still one that a file may name. */
const variableCharsMax = 100;

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
  const { kind: _kind, gate: _gate, target_hash: _hash, ...body } = members;
  return client.channels.update(id, {
    ...body,
    ...(target === null ? {} : { target }),
  } as ChannelUpdate);
};
