import { grants } from '../../shared/decision/check-permission.ts';
import type { CompiledGate } from '../../shared/decision/compile-gate.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { AuthzenVocabulary } from '../../shared/model/authzen-vocabulary.ts';
import type { Gate } from '../../shared/model/gate.ts';
import { isId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { type PermissionKey, permissionArea } from '../../shared/model/permission.ts';
import { requestOf } from '../../shared/wire/api/authzen.ts';
import {
  isSubjectType,
  placeSearch,
  renderSearch,
  type Search,
  type SearchPlace,
} from '../../shared/wire/api/authzen-search.ts';
import { findResource, permissionOf, translateResource } from '../../shared/wire/api/translate-entities.ts';
import type { BaseDeps } from '../base/deps.ts';
import { findGate, findGates, readGatesAfter } from '../gates/gate-store.ts';
import { findNamedPassports, listPassportsWith } from '../passports/named-passport-store.ts';
import { distinct } from '../storage/distinct.ts';
import { authzenLimits } from './limits.ts';
import {
  compileForSearch,
  mayByPolicy,
  type Question,
  questionOf,
  type VerifiedFacts,
} from './may-by-policy.ts';
import { readVocabulary } from './vocabulary-store.ts';

type SearchDeps = Pick<BaseDeps, 'sql' | 'clock'>;

interface Entity {
  readonly type: string;
  readonly id: string;
}

/** Which passports may do this there: those in use whose policy and gate permit it. */
export async function searchSubjects(deps: SearchDeps, owner: Owner, search: Search<'subject'>) {
  const place = placeSearch('subject', search, owner);
  const { type } = search.subject;
  const target = isSubjectType(type) ? await readTarget(deps, owner, search) : null;
  if (target === null) return renderSearch<Entity>(place, [], null);
  const { gate, question, permission } = target;
  const nowMs = deps.clock.now();
  return examine(deps, place, {
    atOnce: authzenLimits.passportsAtOnce,
    next: (after, max) =>
      listPassportsWith(deps.sql, owner, {
        ...{ after, max, nowMs },
        permissions: [permission, `${permissionArea(permission)}:*`],
      }),
    nameOf: ({ passport }) => passport.passportId,
    resultOf: (facts): Entity | null =>
      mayByPolicy(gate, facts, question, nowMs) ? { type, id: facts.passport.agentId } : null,
  });
}

/** At which gates the subject may do this; of another type: which resources of the vocabulary. */
export async function searchResources(deps: SearchDeps, owner: Owner, search: Search<'resource'>) {
  const place = placeSearch('resource', search, owner);
  const subject = await readSubject(deps, owner, search);
  if (subject === null) return renderSearch<Entity>(place, [], null);
  const { type } = search.resource;
  const nowMs = deps.clock.now();
  if (type !== 'gate') return searchVocabulary(deps, owner, { place, search, subject });
  const question = questionOf(requestOf(search));
  if (question === null) return renderSearch<Entity>(place, [], null);
  return examine(deps, place, {
    atOnce: authzenLimits.gatesAtOnce,
    next: (after, max) => readGatesAfter(deps.sql, owner, { after, max }),
    nameOf: ({ gateId }) => gateId,
    resultOf: (gate): Entity | null =>
      mayByPolicy(compileForSearch(gate), subject, question, nowMs) ? { type, id: gate.gateId } : null,
  });
}

async function searchVocabulary(
  deps: SearchDeps,
  owner: Owner,
  {
    place,
    search,
    subject,
  }: { readonly place: SearchPlace; readonly search: Search<'resource'>; readonly subject: VerifiedFacts },
) {
  const { action, resource, context } = search;
  const vocabulary = await readVocabulary(deps.sql, owner);
  const ofType = vocabulary.resources.filter(({ type, id }) => type === resource.type && id !== null);
  let gates: ReadonlyMap<string, CompiledGate> = new Map();
  const nowMs = deps.clock.now();
  return examineList(deps, place, {
    candidates: ofType,
    begin: async (known) => {
      gates = await compileGates(deps, owner, known, gates);
    },
    resultOf: (known): Entity | null => {
      const gate = gates.get(known.gateId);
      const id = known.id ?? '';
      const translated = translateResource(known, { ...resource, id });
      const name = wordFor(vocabulary, { type: resource.type, properties: translated.properties }, action);
      const question = questionOrNone({
        ...{ action: { ...action, name }, resource: translated },
        ...(context && { context }),
      });
      const isFound = gate !== undefined && question !== null && mayByPolicy(gate, subject, question, nowMs);
      return isFound ? { type: resource.type, id } : null;
    },
  });
}

/** Null also where what is known of a resource contradicts the search: its evaluation would be refused. */
function questionOrNone(asked: Parameters<typeof requestOf>[0]): Question | null {
  try {
    return questionOf(requestOf(asked));
  } catch (error) {
    if (error instanceof ApiError) return null;
    throw error;
  }
}

/** What the subject may do there: of its permissions, or, of another type, of the vocabulary's actions. */
export async function searchActions(deps: SearchDeps, owner: Owner, search: Search<'action'>) {
  const place = placeSearch('action', search, owner);
  const subject = await readSubject(deps, owner, search);
  const found = subject === null ? null : await readResource(deps, owner, search.resource);
  if (subject === null || found === null) return renderSearch<{ name: string }>(place, [], null);
  const { gate, resource, vocabulary } = found;
  const compiled = compileForSearch(gate);
  const { type } = search.resource;
  const words =
    vocabulary === null
      ? permissionsAt(gate, subject)
      : distinct(
          vocabulary.actions.flatMap(({ resourceType, name }) => (resourceType === type ? [name] : [])),
        );
  const nowMs = deps.clock.now();
  return examineList(deps, place, {
    candidates: words,
    resultOf: (word) => {
      const name =
        vocabulary === null
          ? word
          : wordFor(vocabulary, { type, properties: resource.properties }, { name: word });
      const { context } = search;
      const question = questionOf(requestOf({ action: { name }, resource, ...(context && { context }) }));
      return question !== null && mayByPolicy(compiled, subject, question, nowMs) ? { name: word } : null;
    },
  });
}

/** Permissions that the passport has by name, and of whole areas those that the gate names. */
function permissionsAt({ catalogTerms, routes }: Gate, { passport }: VerifiedFacts): readonly string[] {
  const ofGate = [...(catalogTerms?.keys() ?? []), ...routes.map(({ permissionKey }) => permissionKey)];
  const byName = [...passport.permissions].filter((key) => !key.endsWith(':*')) as PermissionKey[];
  return distinct([...byName, ...ofGate])
    .filter((key) => grants(passport.permissions, key))
    .sort();
}

const wordFor = (
  vocabulary: AuthzenVocabulary,
  resource: Parameters<typeof permissionOf>[1],
  action: Parameters<typeof permissionOf>[2],
): string => permissionOf(vocabulary, resource, action) ?? action.name;

/** Null: there is no such passport. */
async function readSubject(
  { sql }: SearchDeps,
  owner: Owner,
  { subject: { type, id } }: Search<'resource' | 'action'>,
): Promise<VerifiedFacts | null> {
  if (!isSubjectType(type)) return null;
  const found = await findNamedPassports(sql, owner, [id]);
  return found.get(id) ?? null;
}

/** The gate that decides about a resource. Null: none does. The vocabulary is null for a gate. */
async function readResource(deps: SearchDeps, owner: Owner, asked: Search<'action'>['resource']) {
  const vocabulary = asked.type === 'gate' ? null : await readVocabulary(deps.sql, owner);
  const known = vocabulary === null ? null : findResource(vocabulary, asked);
  if (vocabulary !== null && known === null) return null;
  const { properties = {} } = asked;
  const resource = known === null ? { id: asked.id, properties } : translateResource(known, asked);
  const gate = isId('gate', resource.id) ? await findGate(deps.sql, owner, resource.id) : null;
  return gate === null ? null : { gate, resource, vocabulary };
}

interface Target {
  readonly gate: CompiledGate;
  readonly question: Question;
  readonly permission: PermissionKey;
}

async function readTarget(
  deps: SearchDeps,
  owner: Owner,
  { action, resource: asked, context }: Search<'subject'>,
): Promise<Target | null> {
  const found = await readResource(deps, owner, asked);
  if (found === null) return null;
  const { gate, resource, vocabulary } = found;
  const about = { type: asked.type, properties: resource.properties };
  const name = vocabulary === null ? action.name : wordFor(vocabulary, about, action);
  const question = questionOf(
    requestOf({ action: { ...action, name }, resource, ...(context && { context }) }),
  );
  const permission = question?.request.permissionKey ?? null;
  return question === null || permission === null
    ? null
    : { gate: compileForSearch(gate), question, permission };
}

/** The gates of these resources, without those that are `known` already. Not all at once: they are large. */
async function compileGates(
  { sql }: SearchDeps,
  { accountId, mode }: Owner,
  resources: AuthzenVocabulary['resources'],
  known: ReadonlyMap<string, CompiledGate>,
): Promise<ReadonlyMap<string, CompiledGate>> {
  const ids = distinct(resources.map(({ gateId }) => gateId));
  const read = await findGates(
    sql,
    accountId,
    ids.filter((id) => !known.has(id)),
  );
  return new Map(
    ids.flatMap((id) => {
      const gate = read.get(id);
      const compiled = gate?.mode === mode ? compileForSearch(gate) : known.get(id);
      return compiled === undefined ? [] : [[id, compiled] as const];
    }),
  );
}

interface Walk<Candidate, Result> {
  readonly atOnce: number;
  /** Those after a name, in ascending order, at most `max`. */
  readonly next: (after: string, max: number) => Promise<readonly Candidate[]>;
  readonly nameOf: (candidate: Candidate) => string;
  readonly resultOf: (candidate: Candidate) => Result | null;
}

/**
 * The results of a page. It ends before the result that is one too many, so that a `next_token` promises
 * more; and after `examinedMax` candidates, where more may follow.
 */
async function examine<Candidate, Result>(
  { clock }: Pick<SearchDeps, 'clock'>,
  place: SearchPlace,
  { atOnce, next, nameOf, resultOf }: Walk<Candidate, Result>,
) {
  const { examinedMax, turnMsMax } = authzenLimits;
  const results: Result[] = [];
  let { after } = place;
  for (let left: number = examinedMax; left > 0; left -= atOnce) {
    const max = Math.min(atOnce, left);
    const candidates = await next(after, max);
    let turnBeganAtMs = clock.monotonic();
    for (const candidate of candidates) {
      const result = resultOf(candidate);
      if (result !== null && results.length === place.limit) return renderSearch(place, results, after);
      if (result !== null) results.push(result);
      after = nameOf(candidate);
      if (clock.monotonic() - turnBeganAtMs < turnMsMax) continue;
      await new Promise((resolve) => setImmediate(resolve));
      turnBeganAtMs = clock.monotonic();
    }
    if (candidates.length < max) return renderSearch(place, results, null);
  }
  return renderSearch(place, results, after);
}

/** The same over a list, where a candidate's name is its place. */
const examineList = <Candidate, Result>(
  deps: Pick<SearchDeps, 'clock'>,
  place: SearchPlace,
  {
    candidates,
    begin,
    resultOf,
  }: {
    readonly candidates: readonly Candidate[];
    /** Before the results of these. */
    readonly begin?: (few: readonly Candidate[]) => Promise<void>;
    readonly resultOf: (candidate: Candidate) => Result | null;
  },
) =>
  examine(deps, place, {
    atOnce: authzenLimits.gatesAtOnce,
    next: async (after, max) => {
      const from = after === '' ? 0 : Number(after) + 1;
      // A token that was made up names no place, and nothing follows it.
      const few = candidates.slice(from, from + max);
      await begin?.(few);
      return few.map((candidate, index) => ({ candidate, name: `${from + index}` }));
    },
    nameOf: ({ name }) => name,
    resultOf: ({ candidate }) => resultOf(candidate),
  });
