import { UsageError } from '../base/call-api.ts';
import type { Work } from '../base/host.ts';
import { type DesiredChannel, desiredChannels } from './apply-channels.ts';
import { type Account, type CurrentGate, isSame, keysById, readGates } from './apply-current.ts';
import { type Desired, desiredOf, desiredTemplate, issuerPrefix, type Members } from './apply-desired.ts';
import type { ReadFile } from './apply-file.ts';
import type { Fits } from './apply-keys.ts';
import { idsWith, type Kind, type Label, type Step, stepOf } from './apply-steps.ts';
import { planWallets } from './apply-wallets.ts';

/** An id of the form of those of issuers, for one that this plan creates: the file may name it already. */
/** As `trusted_issuers` of a plan has one that is not made yet. */
export const isFutureIssuer = (id: string): boolean => /^iss_0{18}/.test(id);

const futureIssuer = (place: number): string => `iss_${String(place).padStart(26, '0')}`;

/** Of templates: they never change, and have no label. */
export const isTemplateOf: Fits = (list, entry, { members }) => {
  if (list !== 'templates') return false;
  const { key: _key, ...body } = entry as Parameters<typeof desiredTemplate>[0];
  try {
    return isSame(desiredTemplate(body).members, members);
  } catch {
    // Said with its line later.
    return false;
  }
};

/**
 * What has to be done so that the account has what the file, `withKeys`, says. Throws UsageError for what the
 * service does not change.
 */
export async function planOf(
  { client, host }: Pick<Work, 'client' | 'host'>,
  file: ReadFile,
  account: Account,
  prune: Label | null,
): Promise<readonly Step[]> {
  const future = (file.content.issuers ?? [])
    .filter(({ key = '' }) => !account.issuers.has(key))
    .map(({ key = '' }, place): [string, string] => [key, futureIssuer(place)]);
  const desired = desiredOf(file, knownOf(account, new Map(future)));
  if (prune !== null) refuseUnlabelled(prune, desired);
  const wanted = desired.gates.flatMap(({ key }) => account.gates.get(key)?.id ?? []);
  const pruned = prune === null ? [] : idsWith(account.gates, prune, new Set(wanted));
  const wallets = await planWallets(client, { file, desired, account, prune });
  const hasCatalogs = desired.gates.some(({ catalog }) => catalog !== null);
  const gates = await readGates(client, [...wanted, ...pruned], { withCatalogs: hasCatalogs });
  return [
    ...wallets.first,
    ...issuerSteps(desired, account),
    ...templateSteps(desired, account),
    ...gateSteps(desired, account, gates),
    ...webhookSteps(desired, account),
    ...channelSteps(desiredChannels(file, account, host.env), account),
    ...(prune === null ? [] : pruneSteps(prune, { desired, account, gates, pruned })),
    ...wallets.last,
  ];
}

/** Names that the file may use. The ids of issuers that do not exist yet: `future`. */
export function knownOf(account: Account, future: ReadonlyMap<string, string>) {
  const issuers = new Map([...future]);
  for (const [key, { id }] of account.issuers) issuers.set(key, id);
  const own = [...account.templates].map(([key, { members }]) => ({ ...members, key }));
  const builtIn = account.builtInTemplates.map((each) => ({ ...each, key: each['name'] }));
  return { issuers, wallets: account.wallets, templates: [...own, ...builtIn] };
}

function issuerSteps(desired: Desired, { issuers }: Account): Step[] {
  return desired.issuers.flatMap(({ key, name, members }) => {
    const current = issuers.get(key) ?? null;
    if (current !== null) refuseFixed('issuer', name, current.members, members, ['domain', 'trust_tier']);
    return stepOf('issuer', { key, name }, current, members);
  });
}

function templateSteps(desired: Desired, { templates }: Account): Step[] {
  return desired.templates.flatMap(({ key, name, members }) => {
    const current = templates.get(key) ?? null;
    if (current !== null) refuseFixed('template', name, current.members, members, Object.keys(members));
    return stepOf('template', { key, name }, current, members);
  });
}

function refuseFixed(
  kind: Kind,
  name: string,
  before: Members,
  after: Members,
  fixed: readonly string[],
): void {
  const changed = fixed.filter((member) => !isSame(before[member], after[member]));
  if (changed.length === 0) return;
  throw new UsageError(
    `The ${changed.join(' and ')} of the ${kind} "${name}" cannot be changed. Give the new one another name.`,
  );
}

function gateSteps(desired: Desired, account: Account, gates: ReadonlyMap<string, CurrentGate>): Step[] {
  return desired.gates.flatMap(({ key, name, members, catalog }) => {
    const current = gates.get(account.gates.get(key)?.id ?? '') ?? null;
    const steps = stepOf('gate', { key, name }, current, members);
    if (catalog === null || isSame(current?.catalog, catalog)) return steps;
    const verb = current?.catalog == null ? 'create' : 'change';
    const before = current?.catalog ?? {};
    const of = { kind: 'catalog', key, name, id: current?.id ?? null, etag: undefined } as const;
    return [...steps, { ...of, verb, before, after: catalog }];
  });
}

const webhookSteps = (desired: Desired, { webhooks }: Account): Step[] =>
  desired.webhooks.flatMap(({ key, url, members }) =>
    stepOf('webhook', { key, name: url }, webhooks.get(key) ?? null, members),
  );

const channelSteps = (desired: readonly DesiredChannel[], { channels }: Account): Step[] =>
  desired.flatMap(({ key, name, members }) => {
    const current = channels.get(key) ?? null;
    if (current !== null) refuseFixed('channel', name, current.members, members, ['kind', 'gate']);
    return stepOf('channel', { key, name }, current, members);
  });

/** What is pruned by a label must have it itself: else it would stay when it leaves the file. */
function refuseUnlabelled(prune: Label, desired: Desired): void {
  const without = [
    ...desired.gates.map(({ name, members }) => ({ what: `gate "${name}"`, members })),
    ...desired.wallets.map(({ name, members }) => ({ what: `wallet "${name}"`, members })),
    ...desired.webhooks.map(({ url, members }) => ({ what: `webhook ${url}`, members })),
  ].find(({ members }) => (members['labels'] as Members)[prune.name] !== prune.value);
  if (without !== undefined) {
    throw new UsageError(
      `The ${without.what} of the file lacks the label ${prune.name}=${prune.value}, and would never be pruned. Add it to labels at the top of the file.`,
    );
  }
}

/** Deletes what has the label and is not in the file. */
function pruneSteps(
  prune: Label,
  of: {
    readonly desired: Desired;
    readonly account: Account;
    readonly gates: ReadonlyMap<string, CurrentGate>;
    readonly pruned: readonly string[];
  },
): Step[] {
  const { desired, account, gates, pruned } = of;
  const step = (kind: Kind, name: string, id: string, members: Members, etag?: string): Step => ({
    ...{ kind, verb: 'delete', key: id, name, id, etag, before: members, after: {} },
  });
  const urls = keysById(account.webhooks);
  const kept = new Set(desired.webhooks.flatMap(({ key }) => account.webhooks.get(key)?.id ?? []));
  return [
    ...pruned.flatMap((id) => {
      const gate = gates.get(id);
      return gate === undefined ? [] : step('gate', gate.name, id, gate.members, gate.etag);
    }),
    ...idsWith(account.webhooks, prune, kept).map((id) => step('webhook', urls.get(id) ?? id, id, {})),
  ];
}

/** Ids of issuers that do not exist yet, as the file calls them. */
export function withFutureNames(text: string, file: ReadFile, { issuers }: Account): string {
  let shown = text;
  const future = (file.content.issuers ?? []).filter(({ key = '' }) => !issuers.has(key));
  for (const [place, { key = '' }] of future.entries())
    shown = shown.replaceAll(futureIssuer(place), `${issuerPrefix}${key}`);
  return shown;
}
