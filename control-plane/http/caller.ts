import type { FastifyRequest } from 'fastify';
import { must } from '../../shared/errors/assert.ts';
import type { PlanLimits } from '../../shared/model/account.ts';
import type { Actor } from '../../shared/model/audit.ts';
import type { AccountId, ApiKeyId, RequestId, SessionId, UserId } from '../../shared/model/ids.ts';
import type { Mode } from '../../shared/model/mode.ts';
import type { Scope } from '../../shared/model/scopes.ts';
import type { UnixMillis } from '../../shared/model/time.ts';

/**
 * The caller: the API key of the request or of its access token, or the person of its browser session; with
 * its owner.
 */
export interface Caller {
  readonly accountId: AccountId;
  readonly mode: Mode;
  readonly scopes: readonly Scope[];
  /** Expiry of the key; null: never. Keys that it makes expire no later. */
  readonly expiresAtMs: UnixMillis | null;
  /**
   * Keys made by this caller end with this key, because the caller came with an access token or its own key
   * ends with it. Null: none.
   */
  readonly madeKeysEndWith: ApiKeyId | null;
  /** Whether it is a live key of the operator's account, which manages the others (contract §2). */
  readonly isOperator: boolean;
  /** The account's; see admission/plan-limits.ts. */
  readonly planLimits: PlanLimits;
  /** Its name in the audit; `actor.id` is the id of the key or the person. */
  readonly actor: Actor;
  /** The logged-in person; null: a program with a key or a token. */
  readonly person: Person | null;
  readonly requestId: RequestId;
}

export interface Person {
  readonly userId: UserId;
  readonly sessionId: SessionId;
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The required scope; null: public. Every route declares it. */
    scope?: Scope | null;
    /** Instead of `scope`: any of these; the route checks which the caller holds. */
    oneOfScopes?: readonly Scope[];
    /**
     * Instead of an API key: an access token of the authorization server, valid nowhere else (contract §13),
     * or a browser session. Such a route declares no scope.
     */
    credential?: 'access_token' | 'session';
    /** A change without a session that must still come from our own pages, because it begins one. */
    beginsSession?: true;
    /** Besides the scope: only keys of the operator. */
    operatorOnly?: boolean;
  }
  interface FastifyInstance {
    /** All registered routes with their requirements, for listings and tests. */
    routeScopes: {
      readonly method: string;
      readonly url: string;
      readonly scope: Scope | null;
      readonly oneOfScopes: readonly Scope[];
      readonly credential: 'access_token' | 'session' | null;
    }[];
  }
  interface FastifyRequest {
    /** Null on public routes. */
    caller: Caller | null;
    /**
     * Authenticates the caller again, for long answers; throws as authentication does. Null except on routes
     * with `oneOfScopes`.
     */
    callerNow: (() => Promise<Caller>) | null;
  }
}

/** The caller of a route that declares a scope. */
export const callerOf = (request: FastifyRequest): Caller =>
  must(request.caller, 'a route that asks for its caller declares a scope');
