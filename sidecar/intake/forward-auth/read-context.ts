import { type CompiledRoutes, matchRoute } from '../../../shared/decision/compile-routes.ts';
import { pathProblem, pathProblems } from '../../../shared/decision/read-path.ts';
import { invalidRequest } from '../../../shared/errors/api-error.ts';
import { unreachable } from '../../../shared/errors/assert.ts';
import { renderUsd } from '../../../shared/model/money.ts';
import type { RequestObject } from '../../../shared/wire/api/check.ts';
import type { RequestHead } from '../../http/server.ts';
import { proofHeaders, proofOf } from './read-proof.ts';

/** Headers that are read whether they are trusted or not: they carry their own proof, or are a part of it. */
const credentials = ['x-agent-passport', 'x-agent-trust-key'] as const;

/** Of what a trusted header may inform; any other one only becomes part of the request. */
const meanings = {
  permission: ['x-gate-permission'],
  amount: ['x-gate-amount'],
  method: ['x-forwarded-method', 'x-original-method'],
  target: ['x-forwarded-uri', 'x-original-uri', 'x-original-url'],
  host: ['x-forwarded-host', 'x-original-host'],
  scheme: ['x-forwarded-proto', 'x-original-proto'],
} as const satisfies Readonly<Record<string, readonly string[]>>;
type Meaning = keyof typeof meanings;
/** A scheme stays among the headers that become part of the request. */
const { scheme: _scheme, ...namedOtherwise } = meanings;
const hasMeaning: ReadonlySet<string> = new Set([...credentials, ...Object.values(namedOtherwise).flat()]);

/**
 * Whether the original target would be read of a header and its method of the request itself, which is the
 * proxy's own where it asks with one method for all (nginx).
 */
export const lacksMethod = (trusted: readonly string[]): boolean =>
  meanings.target.some((name) => trusted.includes(name)) &&
  !meanings.method.some((name) => trusted.includes(name));

/** The header names that one request is read for, in the order of `RequestHead.headers`. */
export const headersRead = (trusted: readonly string[]): readonly string[] => [
  ...new Set([...credentials, ...trusted, ...proofHeaders]),
];

export interface ForwardedContext {
  /** What `check` takes as `request`. */
  readonly request: RequestObject;
  /** Why the request has no permission; null: it has one. */
  readonly withoutPermission: string | null;
}

/** Reads one request after another, of whose headers it knows the places. */
export class ContextReader {
  readonly #places: Readonly<Record<Meaning, readonly Place[]>>;
  readonly #others: readonly Place[];
  readonly #placeOf: ReadonlyMap<string, number>;

  /** `names`: as `headersRead` gives them for these `trusted` ones. */
  constructor(names: readonly string[], trusted: readonly string[]) {
    const all = names.map((name, index) => ({ name, index }));
    this.#placeOf = new Map(all.map(({ name, index }) => [name, index]));
    const places = all.filter(({ name }) => trusted.includes(name));
    const placesOf = (meaning: Meaning) =>
      meanings[meaning].flatMap((wanted) => places.filter(({ name }) => name === wanted));
    this.#places = {
      permission: placesOf('permission'),
      amount: placesOf('amount'),
      method: placesOf('method'),
      target: placesOf('target'),
      host: placesOf('host'),
      scheme: placesOf('scheme'),
    };
    this.#others = places.filter(({ name }) => !hasMeaning.has(name));
  }

  /** The two headers that come before all others; '' where one is absent. */
  credentials(headers: RequestHead['headers']): { readonly passport: string; readonly key: string } {
    const [passport = '', key = ''] = headers;
    return { passport, key };
  }

  /**
   * What the request at the per-gate address is about (contract §15): of the trusted headers, and of the
   * request itself where those are silent. Throws `invalid_request` naming the header for one that was sent
   * twice, that contradicts another one, or that cannot be read: guessing could charge too little.
   */
  read(
    head: Pick<RequestHead, 'method' | 'query' | 'headers' | 'authorization'>,
    pathBelow: string,
    routes: CompiledRoutes,
  ): ForwardedContext {
    const { method: ownMethod, query, headers } = head;
    const method = one(this.#places.method, headers) ?? ownMethod;
    const shownTarget = one(this.#places.target, headers) ?? withQuery(pathBelow, query);
    const target = targetOf(shownTarget);
    const permission = permissionFor(method, target, one(this.#places.permission, headers), routes);
    const amount = amountOf(one(this.#places.amount, headers)) ?? permission.amount;
    const host = one(this.#places.host, headers);
    const original = { method, target: shownTarget, host, schemes: this.#schemes(headers) };
    const proof = proofOf(original, (name) => this.#valueOf(name, headers), head);
    const others = this.#others.filter(({ index }) => isPresent(headers[index]));
    return {
      withoutPermission: permission.missing,
      request: {
        method,
        path: target,
        ...(permission.key === null ? {} : { permission_key: permission.key }),
        ...(amount === null ? {} : { amount }),
        ...(host === null ? {} : { domain: host }),
        ...(proof === null ? {} : { proof }),
        ...(others.length === 0
          ? {}
          : { headers: Object.fromEntries(others.map(({ name, index }) => [name, headers[index]])) }),
      },
    };
  }

  #schemes(headers: RequestHead['headers']): readonly string[] {
    return this.#places.scheme.flatMap(({ index }) => headers[index] || []);
  }

  #valueOf(name: string, headers: RequestHead['headers']): string {
    const place = this.#placeOf.get(name);
    return place === undefined ? '' : (headers[place] ?? '');
  }
}

/** Of a header among `RequestHead.headers`. */
interface Place {
  readonly name: string;
  readonly index: number;
}

const isPresent = (value: string | undefined): boolean => value !== undefined && value !== '';

interface Permission {
  readonly key: string | null;
  /** In USD, of the route. Null: it has none. */
  readonly amount: number | null;
  /** Why there is no key; null: there is one. */
  readonly missing: string | null;
}

/** A path that can be read in two ways gives no permission, nor keeps the one that a header names. */
function permissionFor(
  method: string,
  target: string,
  named: string | null,
  routes: CompiledRoutes,
): Permission {
  const queryAt = target.indexOf('?');
  const path = queryAt === -1 ? target : target.slice(0, queryAt);
  const problem = pathProblem(path);
  if (problem !== null) return withoutPermission(`${manyReadings}: it ${pathProblems[problem]}.`);
  if (named !== null) return { key: named, amount: null, missing: null };
  const match = matchRoute(routes, method, path);
  switch (match.kind) {
    case 'route': {
      const { permissionKey, amountMicroUsd } = match.demand;
      return {
        key: permissionKey,
        amount: amountMicroUsd === null ? null : renderUsd(amountMicroUsd),
        missing: null,
      };
    }
    case 'ambiguous':
      return withoutPermission(
        'No permission follows from this method and path, because another reading of them (small letters for capitals, the encoding, the last slash, HEAD as GET) leads to a route that demands something else.',
      );
    case 'none':
      return withoutPermission(
        'No trusted header names a permission, and no route of the gate has this method and path.',
      );
    default:
      return unreachable(match);
  }
}

const manyReadings = 'No permission follows from this path, because it can be read in more than one way';
const withoutPermission = (missing: string): Permission => ({ key: null, amount: null, missing });

const withQuery = (path: string, query: string): string => (query === '' ? path : `${path}?${query}`);

/**
 * `X-Original-URL` comes as a whole URL from some proxies, of which the rest is known otherwise. Where
 * readers disagree on the end of its host (`http:///a/b`, `http://a\b/c`) it is left whole, and no path.
 */
const targetOf = (target: string): string => target.replace(/^https?:\/\/[^/?#\\]+(?=\/)/i, '');

/** The value of the headers at these places, which mean the same; null: none was sent. */
function one(places: readonly Place[], headers: RequestHead['headers']): string | null {
  let agreed: string | null = null;
  for (const { name, index } of places) {
    const value = headers[index] ?? '';
    if (value === '') continue;
    // The adapters join the values of a repeated header so; no value that is read here holds a space.
    if (value.includes(', ')) throw invalidRequest(name, `Send the header ${name} once.`);
    if (agreed !== null && agreed !== value) {
      throw invalidRequest(name, `The header ${name} and another trusted one contradict each other.`);
    }
    agreed = value;
  }
  return agreed;
}

/** As JSON writes a number, so that it is read as `amount` in a body would be. */
function amountOf(text: string | null): number | null {
  if (text === null) return null;
  if (/^\d{1,10}(?:\.\d{1,6})?$/.test(text)) return Number(text);
  throw invalidRequest(
    'x-gate-amount',
    'The header x-gate-amount must be an amount in USD with at most 6 decimals, such as 12.5.',
  );
}
