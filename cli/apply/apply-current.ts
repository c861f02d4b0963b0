import { isDeepStrictEqual } from 'node:util';
import { responseOf } from '../../clients/node/src/agent-trust.ts';
import { ForbiddenError, NotFoundError } from '../../clients/node/src/errors.ts';
import { keyLabel } from '../../shared/model/labels.ts';
import { limits } from '../../shared/model/limits.ts';
import { eachOf } from '../base/each-of.ts';
import type { Work } from '../base/host.ts';
import { catalogMembers, type Members, settingsOf, walletMember } from './apply-desired.ts';
import { isKey, keysOf } from './keys-of.ts';

/** A resource as it is now. */
export interface Current {
  readonly id: string;
  /** Of a webhook its URL. */
  readonly name: string;
  /** The key that a file has given it; in no `members` of exports. */
  readonly label: string | null;
  /** Of a wallet: the names from its root on. */
  readonly path: string | null;
  readonly members: Members;
  /** Of an issuer of others: no answer has its keys. */
  readonly isPasted?: boolean;
  /** Of a channel: its gate is deleted. */
  readonly isOrphan?: boolean;
  /** Of a channel: in no plan. */
  readonly targetHash?: string;
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

/** By a key of its own each (`keysOf`), which is the name where no other has it. */
export type Found = ReadonlyMap<string, Current>;

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
      label: labelIn(metadata),
    }),
  );
  const builtInTemplates: Members[] = [];
  const templates = await found(client.templates.list(all), (template) => {
    const { name, template_id, description, trust_level, constraints, built_in } = template;
    if (built_in) builtInTemplates.push({ ...template });
    return built_in ? null : { name, id: template_id, members: { description, trust_level, constraints } };
  });
  const gates = await found(client.gates.list(all), ({ name, gate_id, labels = {} }) => ({
    ...{ name, id: gate_id, members: { labels }, label: labelIn(labels) },
  }));
  const webhooks = await found(
    client.webhooks.list(all),
    ({ url, webhook_id, events, format, description, status, labels = {} }) =>
      url === null
        ? null
        : {
            ...{ name: url, id: webhook_id, label: labelIn(labels) },
            members: { events, format, description, status, labels },
          },
  );
  const gateKeys = keysById(gates);
  const channels = await found(client.channels.list(all), (channel) => {
    const { name, channel_id, kind, gate_id, target_hash, after_s, events, status } = channel;
    const gate = gate_id === null ? null : (gateKeys.get(gate_id) ?? gate_id);
    const isOrphan = gate_id !== null && !gateKeys.has(gate_id);
    const members = { kind, gate, target: 'stays', after_s, events, status };
    return { name, id: channel_id, members, isOrphan, targetHash: target_hash };
  });
  return { wallets, issuers, templates, builtInTemplates, gates, webhooks, channels };
}

/** Null: the key may not read them, or the service knows none, and they are not needed. */
async function readWallets(client: Client, areNeeded: boolean): Promise<Found | null> {
  try {
    const listed = await allOf(client.wallets.list(all));
    const byId = new Map(listed.map((wallet) => [wallet.wallet_id, wallet]));
    const pathOf = ({ name, parent_wallet_id: parentId }: (typeof listed)[number]): string => {
      const parent = parentId === null ? undefined : byId.get(parentId);
      return parent === undefined ? name : `${pathOf(parent)}/${name}`;
    };
    const wallets = keyed(
      listed.map((wallet) => {
        const { name, wallet_id: id, parent_wallet_id: walletId, labels = {} } = wallet;
        return { name, id, walletId, members: { ...wallet }, label: labelIn(labels), path: pathOf(wallet) };
      }),
    );
    const keys = keysById(wallets);
    return new Map(
      [...wallets].map(([key, each]) => [key, { ...each, members: walletMembers(each.members, keys) }]),
    );
  } catch (error) {
    const isUnknown = error instanceof ForbiddenError || error instanceof NotFoundError;
    if (areNeeded || !isUnknown) throw error;
    return null;
  }
}

/** What a file says of a wallet. */
function walletMembers(wallet: Members, keys: ReadonlyMap<string, string>): Members {
  const { parent_wallet_id: parentId, limits: own, share, alert_at, status, labels = {} } = wallet;
  const parent = typeof parentId === 'string' ? (keys.get(parentId) ?? parentId) : null;
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
  const keys = keysById(wallets);
  return readEach(ids, async (id) => {
    const [wallet, listed] = [await orNull(client.wallets.get(id)), wallets.get(keys.get(id) ?? '')];
    if (wallet === null || listed === undefined) return null;
    const { etag } = responseOf(wallet).headers;
    const { passports, parent_wallet_id: walletId } = wallet;
    const members = walletMembers({ ...wallet }, keys);
    return { ...listed, walletId, members, passports, etag: typeof etag === 'string' ? etag : undefined };
  });
}

export const keysById = (found: Found): ReadonlyMap<string, string> =>
  new Map([...found].map(([key, { id }]) => [id, key]));

type Listed = Omit<Current, 'label' | 'path'> & Partial<Current>;

async function found<Item>(list: AsyncIterable<Item>, read: (item: Item) => Listed | null): Promise<Found> {
  return keyed((await allOf(list)).flatMap((item) => read(item) ?? []));
}

async function allOf<Item>(list: AsyncIterable<Item>): Promise<readonly Item[]> {
  const items: Item[] = [];
  for await (const item of list) items.push(item);
  return items;
}

function keyed(listed: readonly Listed[]): Found {
  const all = listed.map((one): Current => ({ label: null, path: null, ...one }));
  const keys = keysOf(all);
  return new Map(all.map((one) => [keys.get(one.id) ?? one.name, one]));
}

/** What no file has given it is no key. */
function labelIn(kept: Members): string | null {
  const label = kept[keyLabel];
  return isKey(label) ? label : null;
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
  const read = await eachOf(ids, async (id) => [id, await readOne(id)] as const);
  return new Map(read.flatMap(([id, one]) => (one === null ? [] : [[id, one] as const])));
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
    ...{ id, name: gate.name, label: labelIn(labels), path: null },
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
