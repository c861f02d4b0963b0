/**
 * Room `control-plane/admission`: authentication (here), plan limits (`plan-limits.ts`), and concurrency
 * (`decision-slots.ts`).
 */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { hashApiKey, parseApiKey } from '../../shared/crypto/api-key.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { assert, must } from '../../shared/errors/assert.ts';
import type { Actor } from '../../shared/model/audit.ts';
import type { ApiKeyId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import { holdsScope } from '../../shared/model/scopes.ts';
import { isExpired, type UnixMillis } from '../../shared/model/time.ts';
import { type PresentedKey, touchApiKey } from '../api-keys/api-key-store.ts';
import type { BaseDeps } from '../base/deps.ts';
import { type Caller, callerOf } from '../http/caller.ts';
import { requestIdOf } from '../http/request-id.ts';
import { findKeyByToken } from '../oauth/access-token.ts';
import { challenge, challengeForToken } from '../oauth/challenge.ts';
import { isSubjectActive } from '../passports/subject-standing-store.ts';
import {
  authenticateSession,
  callerOfSession,
  readMode,
  sessionUseNotes,
} from '../sessions/authenticate-session.ts';
import { readCookie, sessionCookie } from '../sessions/cookies.ts';
import type { SessionDeps } from '../sessions/deps.ts';
import { isReading, refuseCrossSite } from '../sessions/refuse-cross-site.ts';
import { keyLookUps } from './key-look-ups.ts';

type AuthDeps = Pick<
  SessionDeps,
  'sql' | 'clock' | 'logger' | 'random' | 'sealer' | 'baseUrl' | 'opensToolsToKeys' | 'sessionTimes'
>;

/**
 * Authenticates callers by bearer API key (contract §2) or by the cookie of a browser session
 * (docs/people.md). Runs before the body is read, so an unauthorised caller learns nothing about its body. An
 * unknown address answers 404 to every caller. Key and session are looked up for every request, so deletion,
 * expiry and suspension take effect at once. `installScopes` does authorisation.
 *
 * A request with an `Authorization` header is a key's, even with a cookie: the header is sent on purpose, the
 * cookie automatically. The cookie does not replace an invalid key.
 */
export function installAuth(app: FastifyInstance, deps: AuthDeps): void {
  const findKey = keyLookUps(deps);
  const noteKey = keyUseNotes(app, deps);
  const noteSession = sessionUseNotes(app, deps);
  const { origin } = new URL(deps.baseUrl);
  app.decorateRequest('caller', null);
  app.decorateRequest('browserSession', null);
  app.decorateRequest('callerNow', null);
  app.decorate('routeScopes', []);
  app.addHook('onRoute', ({ method, url, config }) => {
    const scope = config?.scope;
    assert(scope !== undefined, `${url} declares its scope`);
    const credential = config?.credential ?? null;
    const oneOfScopes = config?.oneOfScopes ?? [];
    for (const each of [method].flat())
      app.routeScopes.push({ method: each, url, scope, oneOfScopes, credential });
  });
  const { personOf, programOf } = callerReaders(deps, findKey);
  app.addHook('onRequest', async (request, reply) => {
    if (request.is404 || lacksLastId(request)) throw new ApiError('route_not_found');
    const { headers, method } = request;
    const { scope, oneOfScopes, credential, beginsSession } = request.routeOptions.config;
    if (beginsSession === true) refuseCrossSite(headers, origin);
    if (scope === null && credential === undefined && oneOfScopes === undefined) return;
    // Answers are for one caller, some with secrets: no cache may store one.
    reply.header('cache-control', 'no-store');
    const nowMs = deps.clock.now();
    const isPerson = isOfPerson(request);
    if (isPerson) {
      // Without a cookie another site has nothing to exploit: the caller has to log in.
      if (!isReading(method) && readCookie(headers, sessionCookie) !== null) refuseCrossSite(headers, origin);
      const { session, caller } = await personOf(request, nowMs);
      noteSession(session, nowMs);
      request.browserSession = session;
      request.caller = caller;
    } else {
      const { key, caller } = await programOf(request, reply, nowMs);
      noteKey(key, nowMs);
      request.caller = caller;
    }
    if (oneOfScopes === undefined) return;
    request.callerNow = async () => {
      const again = isPerson
        ? personOf(request, deps.clock.now())
        : programOf(request, reply, deps.clock.now());
      return (await again).caller;
    };
  });
}

/** Readers of the caller: for requests of people, and of programs. */
function callerReaders(deps: AuthDeps, findKey: ReturnType<typeof keyLookUps>) {
  const personOf = async (request: FastifyRequest, nowMs: UnixMillis) => {
    const session = await authenticateSession(deps, request.headers, nowMs);
    const as = { mode: readMode(request.headers), requestId: requestIdOf(request) };
    return { session, caller: callerOfSession(session, as) };
  };
  const programOf = async (request: FastifyRequest, reply: FastifyReply, nowMs: UnixMillis) => {
    const { credential } = request.routeOptions.config;
    const { authorization } = request.headers;
    const { key, actor } =
      credential === undefined || (deps.opensToolsToKeys && isApiKey(authorization))
        ? await authenticate(findKey, authorization, nowMs)
        : await authenticateToken(deps, authorization, nowMs, reply);
    if (key.accountStatus === 'suspended') throw new ApiError('account_suspended');
    const caller: Caller = {
      accountId: key.accountId,
      mode: key.mode,
      scopes: key.scopes,
      expiresAtMs: key.expiresAtMs,
      madeKeysEndWith: credential === 'access_token' ? key.keyId : key.endsWithKeyId,
      isOperator: key.isOperatorAccount && key.mode === 'live',
      planLimits: key.planLimits,
      actor,
      person: null,
      requestId: requestIdOf(request),
    };
    return { key, caller };
  };
  return { personOf, programOf };
}

/**
 * The router matches `/v1/gates/` with `/v1/gates/:id`. Wildcards may be empty, and an empty id before the
 * end of a path is an unknown id in both programs.
 */
const lacksLastId = ({ params, url }: FastifyRequest): boolean =>
  /\/(?:\?|$)/.test(url) &&
  Object.entries(params ?? {}).some(([name, value]) => name !== '*' && value === '');

/**
 * Whether the request is of a browser session: the route accepts only those, or the request has the cookie
 * and no key. Never for calls of sidecars and tools.
 */
function isOfPerson({ headers, routeOptions }: FastifyRequest): boolean {
  const { scope, credential } = routeOptions.config;
  if (credential !== undefined) return credential === 'session';
  const hasCookie = readCookie(headers, sessionCookie) !== null;
  return hasCookie && headers.authorization === undefined && scope !== 'sidecars:connect';
}

/** A usable key, and its user as the audit names it. */
interface Authenticated {
  readonly key: PresentedKey;
  readonly actor: Actor;
}

/** Checks that the caller holds the route's scope. Runs after `installAuth`, also before the body is read. */
export function installScopes(app: FastifyInstance): void {
  app.addHook('onRequest', async (request) => {
    const { scope, oneOfScopes, operatorOnly } = request.routeOptions.config;
    if (oneOfScopes !== undefined) {
      const { scopes } = callerOf(request);
      if (oneOfScopes.some((each) => holdsScope(scopes, each))) return;
      throw new ApiError('insufficient_scope', {
        message: `This endpoint requires one of the scopes ${oneOfScopes.join(', ')}.`,
      });
    }
    if (scope === null) return;
    const required = must(scope, 'a route declares its scope');
    const { scopes, mode, isOperator, person } = callerOf(request);
    // A sidecar serves both modes, so its calls are live.
    if (required === 'sidecars:connect' && mode !== 'live') {
      throw new ApiError('insufficient_scope', {
        message: 'Sidecars connect with a live key (at_live_) only; this one is a test key.',
      });
    }
    if (operatorOnly === true && !isOperator) {
      throw new ApiError('insufficient_scope', {
        message: 'Only live admin:* keys of the operator, the first account, may call this endpoint.',
      });
    }
    if (!holdsScope(scopes, required)) {
      throw new ApiError('insufficient_scope', {
        message:
          person === null
            ? `This endpoint requires an API key with the scope ${required}.`
            : `Your role does not include the scope ${required}, which this endpoint requires.`,
      });
    }
  });
}

/** RFC 6750 §2.1; the name of the scheme is case-insensitive (RFC 9110 §11.1). */
const bearerPattern = /^bearer +(\S+)$/i;

async function authenticate(
  findKey: ReturnType<typeof keyLookUps>,
  header: string | undefined,
  nowMs: UnixMillis,
): Promise<Authenticated> {
  const presented = bearerPattern.exec(header ?? '')?.[1];
  // A mistyped key fails its checksum, without a query.
  if (presented === undefined || parseApiKey(presented) === null) throw new ApiError('unauthorized');
  const key = await findKey(hashApiKey(presented));
  if (key === null || isExpired(key, nowMs)) throw new ApiError('unauthorized');
  return { key, actor: { type: 'api_key', id: key.keyId, clientId: null } };
}

const isApiKey = (header: string | undefined): boolean =>
  parseApiKey(bearerPattern.exec(header ?? '')?.[1] ?? '') !== null;

/** Adds to a 401 where a client gets a token. */
async function authenticateToken(
  deps: Parameters<typeof findKeyByToken>[0],
  header: string | undefined,
  nowMs: UnixMillis,
  reply: FastifyReply,
): Promise<Authenticated> {
  const presented = bearerPattern.exec(header ?? '')?.[1];
  const found = presented === undefined ? null : await findKeyByToken(deps, presented, nowMs);
  if (found !== null && (found.subject === null || (await isSubjectActive(deps.sql, found.subject)))) {
    const { key, subject } = found;
    const clientId = subject?.passportId ?? found.clientId;
    return { key, actor: { type: 'access_token', id: key.keyId, clientId } };
  }
  reply.header('www-authenticate', header === undefined ? challenge(deps) : challengeForToken(deps));
  throw new ApiError('unauthorized', {
    message: 'This endpoint needs a valid access token of this service; an API key is not accepted.',
  });
}

/** Writes `last_used_at` in parallel to the request, at most once per `limits.keyUseWriteIntervalMs`. */
function keyUseNotes(
  app: FastifyInstance,
  { sql, logger }: Pick<BaseDeps, 'sql' | 'logger'>,
): (key: PresentedKey, nowMs: UnixMillis) => void {
  const writing = new Map<ApiKeyId, Promise<void>>();
  app.addHook('onClose', async () => {
    await Promise.all(writing.values());
  });
  return (key, nowMs) => {
    const isRecent = key.lastUsedAtMs !== null && nowMs - key.lastUsedAtMs < limits.keyUseWriteIntervalMs;
    if (isRecent || writing.has(key.keyId)) return;
    const written = touchApiKey(sql, key.keyId, nowMs)
      .catch((error: unknown) => {
        const name = error instanceof Error ? error.name : typeof error;
        logger.warn({ key_id: key.keyId, failure: name }, 'last_used_at could not be written');
      })
      .finally(() => writing.delete(key.keyId));
    writing.set(key.keyId, written);
  };
}
