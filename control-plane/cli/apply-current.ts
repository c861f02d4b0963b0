import { isDeepStrictEqual } from 'node:util';
import { responseOf } from '../../clients/node/src/agent-trust.ts';
import { ForbiddenError, NotFoundError } from '../../clients/node/src/errors.ts';
import { limits } from '../../shared/model/limits.ts';
import { catalogMembers, type Members, settingsOf, walletMember } from './apply-desired.ts';
import { UsageError } from './call-api.ts';
import type { Work } from './host.ts';
import { cliLimits } from './limits.ts';

/** A resource as it is now. */
export interface Current {
  readonly id: string;
  readonly members: Members;
  /** Of an issuer of others: no answer has its keys. */
  readonly isPasted?: boolean;
  /** Of an issuer: that of its passports. Of a wallet: the one above it. */
  readonly walletId?: string | null;
}
export interface CurrentGate extends Current {
  /** For `If-Match`. */
  readonly etag: string | undefined;
  /** Null: none is published, or it was not read. */
  readonly catalog: Members | null;
}

/** Everything of an account and mode that a file can name, but for the details of gates. */
export interface Account {
  /** Null: they were not read, or the key may not. */
  readonly wallets: Found | null;
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

/** `wallets`: few keys may read them, so a file that names none does without. */
export async function readAccount(
  client: Client,
  { wallets: wanted }: { readonly wallets: 'needed' | 'if allowed' | 'not needed' },
): Promise<Account> {
  const wallets = wanted === 'not needed' ? null : await readWallets(client, wanted === 'needed');
  const issuers = await found(
    client.issuers.list(all),
    ({ name, issuer_id, domain, trust_tier, metadata, status, wallet_id, federation }) => ({
      name,
      id: issuer_id,
      walletId: wallet_id,
      members: {
        ...{ domain, trust_tier, metadata, status },
        ...(wallets === null ? { wallet_id } : walletMember(wallet_id, wallets)),
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
  return { wallets, issuers, templates, builtInTemplates, gates, webhooks, channels };
}

/** Null: the key may not read them, or the service knows none, and they are not needed. */
async function readWallets(client: Client, areNeeded: boolean): Promise<Found | null> {
  try {
    const names = new Map<string, string>();
    const listed = await found(client.wallets.list(all), (wallet) => {
      names.set(wallet.wallet_id, wallet.name);
      const { parent_wallet_id: walletId } = wallet;
      return { name: wallet.name, id: wallet.wallet_id, walletId, members: { ...wallet } };
    });
    return new Map(
      [...listed].map(([name, each]) => [
        name,
        each.map((one) => ({ ...one, members: walletMembers(one.members, names) })),
      ]),
    );
  } catch (error) {
    const isUnknown = error instanceof ForbiddenError || error instanceof NotFoundError;
    if (areNeeded || !isUnknown) throw error;
    return null;
  }
}

/** What a file says of a wallet. */
function walletMembers(wallet: Members, names: ReadonlyMap<string, string>): Members {
  const { parent_wallet_id: parentId, limits: own, share, alert_at, status, labels = {} } = wallet;
  const parent = typeof parentId === 'string' ? (names.get(parentId) ?? parentId) : null;
  return { parent, limits: own, share, alert_at, labels, status };
}

export interface CurrentWallet extends Current {
  readonly etag: string | undefined;
  /** That may still be used, in the wallet itself. */
  readonly passports: number;
}

/** Wallets in full, by their ids, a few at a time. One that was deleted meanwhile is left out. */
export async function readWholeWallets(
  client: Client,
  ids: readonly string[],
  wallets: Found,
): Promise<ReadonlyMap<string, CurrentWallet>> {
  const names = namesById(wallets);
  return readEach(ids, async (id) => {
    const wallet = await orNull(client.wallets.get(id));
    if (wallet === null) return null;
    const { etag } = responseOf(wallet).headers;
    const { passports, parent_wallet_id: walletId } = wallet;
    const members = walletMembers({ ...wallet }, names);
    return { id, walletId, members, passports, etag: typeof etag === 'string' ? etag : undefined };
  });
}

export const namesById = (found: Found): ReadonlyMap<string, string> =>
  new Map([...found].flatMap(([name, each]) => each.map(({ id }): [string, string] => [id, name])));

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
  return readEach(ids, (id) => readGate(client, id, wanted));
}

async function readEach<Whole>(
  ids: readonly string[],
  readOne: (id: string) => Promise<Whole | null>,
): Promise<ReadonlyMap<string, Whole>> {
  const whole = new Map<string, Whole>();
  const left = [...ids];
  const read = async (): Promise<void> => {
    for (let id = left.shift(); id !== undefined; id = left.shift()) {
      const one = await readOne(id);
      if (one !== null) whole.set(id, one);
    }
  };
  await Promise.all(Array.from({ length: cliLimits.callsAtOnce }, read));
  return whole;
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
