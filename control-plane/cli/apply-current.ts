import { isDeepStrictEqual } from 'node:util';
import { responseOf } from '../../clients/node/src/agent-trust.ts';
import { NotFoundError } from '../../clients/node/src/errors.ts';
import { limits } from '../../shared/model/limits.ts';
import { catalogMembers, type Members, settingsOf } from './apply-desired.ts';
import { UsageError } from './call-api.ts';
import type { Work } from './host.ts';
import { cliLimits } from './limits.ts';

/** A resource as it is now. */
export interface Current {
  readonly id: string;
  readonly members: Members;
  /** Of an issuer of others: no answer has its keys. */
  readonly isPasted?: boolean;
}
export interface CurrentGate extends Current {
  /** For `If-Match`. */
  readonly etag: string | undefined;
  /** Null: none is published, or it was not read. */
  readonly catalog: Members | null;
}

/** Everything of an account and mode that a file can name, but for the details of gates. */
export interface Account {
  readonly issuers: Found;
  /** Without the built-in ones. */
  readonly templates: Found;
  readonly builtInTemplates: readonly Members[];
  /** As lists have them: name and labels. */
  readonly gates: Found;
  /** Those with a URL, by it. */
  readonly webhooks: Found;
  readonly channels: Found;
}

/** By name; several may share one. */
export type Found = ReadonlyMap<string, readonly Current[]>;

type Client = Work['client'];
const all = { limit: limits.pageItemsMax } as const;

export async function readAccount(client: Client): Promise<Account> {
  const issuers = await found(
    client.issuers.list(all),
    ({ name, issuer_id, domain, trust_tier, metadata, status, wallet_id, federation }) => ({
      name,
      id: issuer_id,
      members: {
        ...{ domain, trust_tier, metadata, status, wallet_id },
        ...(federation === null ? {} : { federation: settingsOf(federation) }),
      },
      isPasted: federation?.is_pasted === true,
    }),
  );
  const builtInTemplates: Members[] = [];
  const templates = await found(client.templates.list(all), (template) => {
    const { name, template_id, description, trust_level, constraints, built_in } = template;
    if (built_in) builtInTemplates.push({ ...template });
    return built_in ? null : { name, id: template_id, members: { description, trust_level, constraints } };
  });
  const gates = await found(client.gates.list(all), ({ name, gate_id, labels = {} }) => ({
    name,
    id: gate_id,
    members: { labels },
  }));
  const webhooks = await found(
    client.webhooks.list(all),
    ({ url, webhook_id, events, format, description, status, labels = {} }) =>
      url === null
        ? null
        : { name: url, id: webhook_id, members: { events, format, description, status, labels } },
  );
  const gateNames = new Map([...gates].flatMap(([name, each]) => each.map(({ id }) => [id, name] as const)));
  const channels = await found(client.channels.list(all), (channel) => {
    const { name, channel_id, kind, gate_id, target_hash, after_s, events, status } = channel;
    const gate = gate_id === null ? null : (gateNames.get(gate_id) ?? gate_id);
    return { name, id: channel_id, members: { kind, gate, target_hash, after_s, events, status } };
  });
  return { issuers, templates, builtInTemplates, gates, webhooks, channels };
}

async function found<Item>(
  list: AsyncIterable<Item>,
  read: (item: Item) => (Current & { readonly name: string }) | null,
): Promise<Found> {
  const byName = new Map<string, Current[]>();
  for await (const item of list) {
    const one = read(item);
    if (one === null) continue;
    const { name, ...current } = one;
    byName.set(name, [...(byName.get(name) ?? []), current]);
  }
  return byName;
}

/** Null: there is none. Throws UsageError where several have the name: which one is meant is not known. */
export function theOne(kind: string, name: string, found: Found): Current | null {
  const [one, ...others] = found.get(name) ?? [];
  if (one === undefined) return null;
  if (others.length === 0) return one;
  const ids = [one, ...others].map(({ id }) => id).join(', ');
  throw new UsageError(
    `${others.length + 1} ${kind}s of the account are "${name}": ${ids}. Rename or delete all but one.`,
  );
}

/** Gates in full, a few at a time. One that was deleted meanwhile is left out. */
export async function readGates(
  client: Client,
  ids: readonly string[],
  wanted: { readonly withCatalogs: boolean },
): Promise<ReadonlyMap<string, CurrentGate>> {
  const gates = new Map<string, CurrentGate>();
  const left = [...ids];
  const read = async (): Promise<void> => {
    for (let id = left.shift(); id !== undefined; id = left.shift()) {
      const gate = await readGate(client, id, wanted);
      if (gate !== null) gates.set(id, gate);
    }
  };
  await Promise.all(Array.from({ length: cliLimits.callsAtOnce }, read));
  return gates;
}

async function readGate(
  client: Client,
  id: string,
  { withCatalogs }: { readonly withCatalogs: boolean },
): Promise<CurrentGate | null> {
  const gate = await orNull(client.gates.get(id));
  if (gate === null) return null;
  const { etag } = responseOf(gate).headers;
  const { description, trust_level, constraints, routes = [], labels = {} } = gate;
  const catalog = withCatalogs ? await orNull(client.catalogs.get(id)) : null;
  return {
    id,
    etag: typeof etag === 'string' ? etag : undefined,
    members: { description, trust_level, constraints, routes, labels },
    catalog: catalog === null ? null : catalogMembers({ ...catalog }),
  };
}

const orNull = <T>(answer: Promise<T>): Promise<T | null> =>
  answer.catch((error: unknown) => {
    if (error instanceof NotFoundError) return null;
    throw error;
  });

export const isSame = (one: unknown, other: unknown): boolean => isDeepStrictEqual(one, other);
