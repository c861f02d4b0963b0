import { type DesiredChannel, desiredChannels } from './apply-channels.ts';
import { type Account, type CurrentGate, isSame, namesById, readGates, theOne } from './apply-current.ts';
import { type Desired, desiredOf, issuerPrefix, type Members } from './apply-desired.ts';
import type { ReadFile } from './apply-file.ts';
import { idsWith, type Kind, type Label, type Step, stepOf } from './apply-steps.ts';
import { planWallets } from './apply-wallets.ts';
import { UsageError } from './call-api.ts';
import type { Work } from './host.ts';

/** An id of the form of those of issuers, for one that this plan creates: the file may name it already. */
const futureIssuer = (place: number): string => `iss_${String(place).padStart(26, '0')}`;

/**
 * What has to be done so that the account has what the file says. Throws UsageError for what the service does
 * not change, and for a name that several have.
 */
export async function planOf(
  { client, host }: Pick<Work, 'client' | 'host'>,
  file: ReadFile,
  account: Account,
  prune: Label | null,
): Promise<readonly Step[]> {
  const future = (file.content.issuers ?? [])
    .filter(({ name }) => !account.issuers.has(name))
    .map(({ name }, place): [string, string] => [name, futureIssuer(place)]);
  const desired = desiredOf(file, knownOf(account, new Map(future)));
  if (prune !== null) refuseUnlabelled(prune, desired);
  const wanted = desired.gates.flatMap(({ name }) => theOne('gate', name, account.gates)?.id ?? []);
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
  for (const [name, [one]] of account.issuers) if (one !== undefined) issuers.set(name, one.id);
  const own = [...account.templates].flatMap(([name, each]) =>
    each.map(({ members }) => ({ ...members, name })),
  );
  return { issuers, wallets: account.wallets, templates: [...own, ...account.builtInTemplates] };
}

function issuerSteps(desired: Desired, { issuers }: Account): Step[] {
  return desired.issuers.flatMap(({ name, members }) => {
    const current = theOne('issuer', name, issuers);
    if (current !== null) refuseFixed('issuer', name, current.members, members, ['domain', 'trust_tier']);
    return stepOf('issuer', name, current, members);
  });
}

function templateSteps(desired: Desired, { templates }: Account): Step[] {
  return desired.templates.flatMap(({ name, members }) => {
    const current = theOne('template', name, templates);
    if (current !== null) refuseFixed('template', name, current.members, members, Object.keys(members));
    return stepOf('template', name, current, members);
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
  return desired.gates.flatMap(({ name, members, catalog }) => {
    const listed = theOne('gate', name, account.gates);
    const current = listed === null ? null : (gates.get(listed.id) ?? null);
    const steps = stepOf('gate', name, current, members);
    if (catalog === null || isSame(current?.catalog, catalog)) return steps;
    const verb = current?.catalog == null ? 'create' : 'change';
    const before = current?.catalog ?? {};
    const of = { kind: 'catalog', name, id: current?.id ?? null, etag: undefined } as const;
    return [...steps, { ...of, verb, before, after: catalog }];
  });
}

const webhookSteps = (desired: Desired, { webhooks }: Account): Step[] =>
  desired.webhooks.flatMap(({ url, members }) =>
    stepOf('webhook', url, theOne('webhook', url, webhooks), members),
  );

const channelSteps = (desired: readonly DesiredChannel[], { channels }: Account): Step[] =>
  desired.flatMap(({ name, members }) => {
    const current = theOne('channel', name, channels);
    if (current !== null) refuseFixed('channel', name, current.members, members, ['kind', 'gate']);
    return stepOf('channel', name, current, members);
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
    ...{ kind, verb: 'delete', name, id, etag, before: members, after: {} },
  });
  const names = namesById(account.gates);
  const urls = namesById(account.webhooks);
  const kept = new Set(
    desired.webhooks.flatMap(({ url }) => account.webhooks.get(url)?.map(({ id }) => id) ?? []),
  );
  return [
    ...pruned.flatMap((id) => {
      const gate = gates.get(id);
      return gate === undefined ? [] : step('gate', names.get(id) ?? id, id, gate.members, gate.etag);
    }),
    ...idsWith(account.webhooks, prune, kept).map((id) => step('webhook', urls.get(id) ?? id, id, {})),
  ];
}

/** Ids of issuers that do not exist yet, as the file calls them. */
export function withFutureNames(text: string, file: ReadFile, { issuers }: Account): string {
  let shown = text;
  const future = (file.content.issuers ?? []).filter(({ name }) => !issuers.has(name));
  for (const [place, { name }] of future.entries())
    shown = shown.replaceAll(futureIssuer(place), `${issuerPrefix}${name}`);
  return shown;
}
