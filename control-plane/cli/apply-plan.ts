import { isJsonObject } from '../../shared/crypto/json-object.ts';
import { type DesiredChannel, desiredChannels } from './apply-channels.ts';
import { type Account, type CurrentGate, type Found, isSame, readGates, theOne } from './apply-current.ts';
import { type Desired, desiredOf, issuerPrefix, type Members } from './apply-desired.ts';
import type { ReadFile } from './apply-file.ts';
import { UsageError } from './call-api.ts';
import type { Work } from './host.ts';

export type Kind = 'issuer' | 'template' | 'gate' | 'catalog' | 'webhook' | 'channel';

/** One call of the service. */
export interface Step {
  readonly kind: Kind;
  readonly verb: 'create' | 'change' | 'delete';
  /** URL of a webhook. Of a catalog: the name of its gate. */
  readonly name: string;
  /** Null: it is made by this call, or by one before it. */
  readonly id: string | null;
  readonly etag: string | undefined;
  readonly before: Members;
  readonly after: Members;
}

export interface Label {
  readonly name: string;
  readonly value: string;
}

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
  const wanted = desired.gates.flatMap(({ name }) => theOne('gate', name, account.gates)?.id ?? []);
  const pruned = prune === null ? [] : idsWith(account.gates, prune, new Set(wanted));
  const hasCatalogs = desired.gates.some(({ catalog }) => catalog !== null);
  const gates = await readGates(client, [...wanted, ...pruned], { withCatalogs: hasCatalogs });
  return [
    ...issuerSteps(desired, account),
    ...templateSteps(desired, account),
    ...gateSteps(desired, account, gates),
    ...webhookSteps(desired, account),
    ...channelSteps(desiredChannels(file, account, host.env), account),
    ...(prune === null ? [] : pruneSteps(prune, { desired, account, gates, pruned })),
  ];
}

/** Names that the file may use. The ids of issuers that do not exist yet: `future`. */
export function knownOf(account: Account, future: ReadonlyMap<string, string>) {
  const issuers = new Map([...future]);
  for (const [name, [one]] of account.issuers) if (one !== undefined) issuers.set(name, one.id);
  const own = [...account.templates].flatMap(([name, each]) =>
    each.map(({ members }) => ({ ...members, name })),
  );
  return { issuers, templates: [...own, ...account.builtInTemplates] };
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

function stepOf(
  kind: Kind,
  name: string,
  current: { readonly id: string; readonly members: Members; readonly etag?: string | undefined } | null,
  after: Members,
): Step[] {
  if (current === null) return [{ kind, verb: 'create', name, id: null, etag: undefined, before: {}, after }];
  // What the file does not name stays as it is.
  const before = Object.fromEntries(Object.keys(after).map((member) => [member, current.members[member]]));
  if (isSame(before, after)) return [];
  return [{ kind, verb: 'change', name, id: current.id, etag: current.etag, before, after }];
}

function idsWith(found: Found, { name, value }: Label, kept: ReadonlySet<string>): readonly string[] {
  return [...found.values()].flatMap((each) =>
    each.flatMap(({ id, members: { labels } }) =>
      (labels as Members)[name] === value && !kept.has(id) ? id : [],
    ),
  );
}

/** Deletes what has the label and is not in the file, which must have the label everywhere itself. */
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
  const without = [
    ...desired.gates.map(({ name, members }) => ({ what: `gate "${name}"`, members })),
    ...desired.webhooks.map(({ url, members }) => ({ what: `webhook ${url}`, members })),
  ].find(({ members }) => (members['labels'] as Members)[prune.name] !== prune.value);
  if (without !== undefined) {
    throw new UsageError(
      `The ${without.what} of the file lacks the label ${prune.name}=${prune.value}, and would never be pruned. Add it to labels at the top of the file.`,
    );
  }
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

const namesById = (found: Found): ReadonlyMap<string, string> =>
  new Map([...found].flatMap(([name, each]) => each.map(({ id }): [string, string] => [id, name])));

export interface Change {
  /** `constraints.spend_limits.daily_usd` */
  readonly member: string;
  /** Absent: it is new. */
  readonly before?: unknown;
  /** Absent: it goes. */
  readonly after?: unknown;
}

/** The members that differ, each by its path; lists as a whole. */
export function changesOf(before: unknown, after: unknown, at = ''): readonly Change[] {
  if (isSame(before, after)) return [];
  if (isJsonObject(before ?? {}) && isJsonObject(after ?? {}) && !(before === null && after === null)) {
    const [old, next] = [(before ?? {}) as Members, (after ?? {}) as Members];
    const names = [...new Set([...Object.keys(old), ...Object.keys(next)])];
    if (names.length > 0 || at === '')
      return names.flatMap((name) => changesOf(old[name], next[name], at === '' ? name : `${at}.${name}`));
  }
  return [
    { member: at, ...(before === undefined ? {} : { before }), ...(after === undefined ? {} : { after }) },
  ];
}

/** The merge patch that makes the one of the other (RFC 7396). */
export function mergePatchOf(before: Members, after: Members): Members {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return Object.fromEntries(
    names.flatMap((name): [string, unknown][] => {
      const [old, next] = [before[name], after[name]];
      if (isSame(old, next)) return [];
      if (next === undefined) return [[name, null]];
      return [[name, isJsonObject(old) && isJsonObject(next) ? mergePatchOf(old, next) : next]];
    }),
  );
}

/** Ids of issuers that do not exist yet, as the file calls them. */
export function withFutureNames(text: string, file: ReadFile, { issuers }: Account): string {
  let shown = text;
  const future = (file.content.issuers ?? []).filter(({ name }) => !issuers.has(name));
  for (const [place, { name }] of future.entries())
    shown = shown.replaceAll(futureIssuer(place), `${issuerPrefix}${name}`);
  return shown;
}
