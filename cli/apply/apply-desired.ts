import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import type { Labels } from '../../shared/model/labels.ts';
import type { Template } from '../../shared/model/template.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { renderCatalogEntry } from '../../shared/wire/api/catalog.ts';
import { renderConstraints } from '../../shared/wire/api/constraints.ts';
import { parseWebUrl, webUrlRule } from '../../shared/wire/api/domain.ts';
import { renderFederation } from '../../shared/wire/api/federation.ts';
import { parseGateCreation } from '../../shared/wire/api/gate.ts';
import { renderGateRoutes } from '../../shared/wire/api/gate-routes.ts';
import { parseIssuerCreation } from '../../shared/wire/api/issuer.ts';
import { parseLabels } from '../../shared/wire/api/labels.ts';
import { parseTemplateCreation } from '../../shared/wire/api/template.ts';
import { parseWalletCreation, renderWalletLimits, type WantedWallet } from '../../shared/wire/api/wallet.ts';
import { distinctEvents } from '../../shared/wire/api/webhook.ts';
import { given } from '../base/options.ts';
import type { ApplyFile, ReadFile } from './apply-file.ts';

/** Members of a resource, as the service answers them: two that say the same are equal. */
export type Members = Readonly<Record<string, unknown>>;

/** `key`: as `Found` has it. */
interface Keyed {
  readonly key: string;
  readonly members: Members;
}
/** Of what has a name that may change. */
interface Titled extends Keyed {
  readonly name: string;
}

export interface DesiredGate extends Titled {
  /** Null: as it is in the service. */
  readonly catalog: Members | null;
}

export interface DesiredWallet extends Titled {
  readonly parent: string | null;
  readonly limits: WantedWallet['limits'];
  readonly share: WantedWallet['share'];
}

export interface Desired {
  readonly wallets: readonly DesiredWallet[];
  readonly issuers: readonly Titled[];
  readonly templates: readonly Titled[];
  readonly gates: readonly DesiredGate[];
  readonly webhooks: readonly (Keyed & { readonly url: string })[];
}

type KnownWallets = ReadonlyMap<string, { readonly id: string }>;

/** What the file takes from the account. */
export interface Known {
  /** Ids of issuers by their keys. */
  readonly issuers: ReadonlyMap<string, string>;
  /** Null: the file names none. */
  readonly wallets: KnownWallets | null;
  /** With their `key`; of built-in ones the name. */
  readonly templates: readonly Members[];
}

export const issuerPrefix = 'issuer:';

/** Reads a file `withKeys` as the service would. Throws UsageError with the line at fault. */
export function desiredOf(file: ReadFile, known: Known): Desired {
  const { content } = file;
  const each = <Item extends { readonly key?: string }, Made extends object>(
    list: 'wallets' | 'issuers' | 'templates' | 'gates' | 'webhooks',
    entries: readonly Item[] | undefined,
    make: (entry: Omit<Item, 'key'>) => Made,
  ): readonly (Made & { readonly key: string })[] =>
    (entries ?? []).map(({ key = '', ...entry }, index) => ({
      key,
      ...within(file, `${list}.${index}`, () => make(entry)),
    }));
  const common = within(file, 'labels', () => parseLabels(content.labels ?? {}), true);
  return {
    wallets: each('wallets', content.wallets, (entry) => desiredWallet(entry, common)),
    issuers: each('issuers', content.issuers, (entry) => desiredIssuer(entry, content, known)),
    templates: each('templates', content.templates, desiredTemplate),
    gates: each('gates', content.gates, (entry) => desiredGate(entry, content, known, common)),
    webhooks: each('webhooks', content.webhooks, (entry) => desiredWebhook(entry, common)),
  };
}

/** Throws UsageError with the line where reading throws ApiError. */
export function within<T>(file: ReadFile, at: string, read: () => T, isWhole = false): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    throw file.fault(error.param === null || isWhole ? at : `${at}.${error.param}`, error.message);
  }
}

type Entry<List extends 'wallets' | 'issuers' | 'templates' | 'gates' | 'webhooks'> = NonNullable<
  ApplyFile[List]
>[number];

function desiredWallet(
  { parent = null, labels = {}, status, ...entry }: Entry<'wallets'>,
  common: Labels,
): Omit<DesiredWallet, 'key'> {
  const { name, limits, share, alertAt } = parseWalletCreation(entry);
  const members = {
    parent,
    limits: renderWalletLimits(limits),
    share,
    alert_at: alertAt,
    labels: parseLabels({ ...common, ...labels }),
    ...(status === undefined ? {} : { status }),
  };
  return { name, members, parent, limits, share };
}

function desiredIssuer({ status, wallet, ...entry }: Entry<'issuers'>, file: ApplyFile, known: Known) {
  const { name, domain, trustTier, metadata, federation: wanted } = parseIssuerCreation(entry);
  const { federation } = entry;
  if (federation?.jwks !== undefined)
    throw invalidRequest(
      'federation.jwks',
      'A file has no pasted keys: give jwks_uri, or use POST /issuers.',
    );
  const walletId = entry.wallet_id === undefined ? federation?.wallet_id : entry.wallet_id;
  const members = {
    ...{ domain, trust_tier: trustTier, metadata },
    ...walletOf({ wallet, walletId }, file, known),
    ...(wanted === null ? {} : { federation: settingsOf(renderFederation(wanted.federation)) }),
  };
  return { name, members: { ...members, ...(status === undefined ? {} : { status }) } };
}

/** Of an issuer: by its name where that tells it apart. Nothing: it stays as it is. */
function walletOf(
  {
    wallet,
    walletId,
  }: { readonly wallet: string | null | undefined; readonly walletId: string | null | undefined },
  file: ApplyFile,
  { wallets }: Known,
): Members {
  if (wallet !== undefined && walletId !== undefined)
    throw invalidRequest('wallet', 'Give wallet, by its name, or wallet_id.');
  if (wallet === undefined)
    return walletId === undefined ? {} : walletMemberOf(walletId, wallets ?? new Map());
  const isKnown = wallet === null || wallets?.has(wallet) || file.wallets?.some(({ key }) => key === wallet);
  if (isKnown) return { wallet };
  throw invalidRequest('wallet', `There is no wallet "${wallet}", neither in the file nor in the account.`);
}

function walletMemberOf(id: string | null, wallets: KnownWallets): Members {
  const isKnown = id === null || [...wallets.values()].some((one) => one.id === id);
  if (isKnown) return walletMember(id, wallets);
  throw invalidRequest('wallet_id', `The account has no wallet ${id}.`);
}

/** The wallet of an issuer by its key. */
export function walletMember(id: string | null, wallets: KnownWallets): Members {
  if (id === null) return { wallet: null };
  const [key] = [...wallets].find(([, one]) => one.id === id) ?? [];
  return key === undefined ? { wallet_id: id } : { wallet: key };
}

/** Of an issuer of others what a file says of it: no keys, and nothing of how they are. */
export function settingsOf(federation: object): Members {
  const own = ['is_pasted', 'keys', 'keys_read_at', 'keys_fault'];
  return Object.fromEntries(Object.entries(federation).filter(([name]) => !own.includes(name)));
}

export function desiredTemplate(entry: Entry<'templates'>) {
  const { name, description, trustLevel, constraints } = parseTemplateCreation(entry);
  return {
    name,
    members: { description, trust_level: trustLevel, constraints: renderConstraints(constraints) },
  };
}

function desiredGate(
  entry: Entry<'gates'>,
  file: ApplyFile,
  known: Known,
  common: Labels,
): Omit<DesiredGate, 'key'> {
  const { template, catalog, labels = {}, ...body } = entry;
  const constraints = withIssuers(entry.constraints ?? {}, known.issuers);
  const { policy, offer } = parseGateCreation(
    { ...body, constraints, ...(catalog === undefined ? {} : { catalog }) },
    template === undefined ? null : templateOf(template, file, known),
  );
  const routes = renderGateRoutes(policy.routes);
  return {
    name: policy.name,
    members: {
      description: policy.description,
      trust_level: policy.trustLevel,
      constraints: renderConstraints(policy.constraints),
      routes,
      labels: parseLabels({ ...common, ...labels }),
    },
    catalog:
      offer === null ? null : { ...offer.more, permissions: offer.permissions.map(renderCatalogEntry) },
  };
}

/** `issuer:NAME` stands for the id of an issuer of the account. */
function withIssuers(constraints: Members, issuers: ReadonlyMap<string, string>): Record<string, unknown> {
  const { trusted_issuers: named } = constraints;
  if (!Array.isArray(named)) return { ...constraints };
  const ids = named.map((text: unknown) => {
    if (typeof text !== 'string' || !text.startsWith(issuerPrefix)) return text;
    const id = issuers.get(text.slice(issuerPrefix.length));
    if (id !== undefined) return id;
    throw new ApiError('invalid_request', {
      param: 'constraints.trusted_issuers',
      message: `There is no issuer "${text.slice(issuerPrefix.length)}", neither in the file nor in the account.`,
    });
  });
  return { ...constraints, trusted_issuers: ids };
}

function templateOf(name: string, file: ApplyFile, { templates }: Known): Template {
  const template =
    file.templates?.find(({ key }) => key === name) ??
    templates.find((each) => each['key'] === name || each['template_id'] === name);
  if (template === undefined) {
    throw new ApiError('invalid_request', {
      param: 'template',
      message: `There is no template "${name}", neither in the file nor in the account.`,
    });
  }
  const { description, trust_level, constraints } = template as Entry<'templates'>;
  const parsed = parseTemplateCreation({ name, ...given({ description, trust_level, constraints }) });
  // What it is called in messages; it is never stored.
  const templateId = name as Template['templateId'];
  return { ...parsed, templateId, isBuiltIn: false, createdAtMs: 0 as UnixMillis };
}

function desiredWebhook(
  { url, events, format, description, status, labels = {} }: Entry<'webhooks'>,
  common: Labels,
) {
  if (parseWebUrl(url) === null) throw invalidRequest('url', `url must be ${webUrlRule}.`);
  const members = {
    events: distinctEvents(events),
    description: description ?? null,
    labels: parseLabels({ ...common, ...labels }),
  };
  return {
    url,
    members: { ...members, ...(format !== undefined && { format }), ...(status !== undefined && { status }) },
  };
}

/** The members of a catalog that its publisher sets. */
export function catalogMembers(catalog: Members): Members {
  const { gate_id, version, published_at, content_hash, signature, signing_key_id, ...set } = catalog;
  return set;
}
