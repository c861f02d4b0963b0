import type { FastifyRequest } from 'fastify';
import { must } from '../../shared/errors/assert.ts';
import type { PlanLimits } from '../../shared/model/account.ts';
import type { Actor } from '../../shared/model/audit.ts';
import type { AccountId, ApiKeyId, RequestId, SessionId, UserId } from '../../shared/model/ids.ts';
import type { Mode } from '../../shared/model/mode.ts';
import type { Scope } from '../../shared/model/scopes.ts';
import type { UnixMillis } from '../../shared/model/time.ts';

/**
 * Who is calling: the API key of the request, the one that its access token stands for, or the person of its
 * browser session, and whose it is.
 */
export interface Caller {
  readonly accountId: AccountId;
  readonly mode: Mode;
  readonly scopes: readonly Scope[];
  /** When the key expires; null: never. No key that it makes expires later. */
  readonly expiresAtMs: UnixMillis | null;
  /**
   * The key with which every key ends that this caller makes: it came with an access token, or its own key
   * ends so. Null: none.
   */
  readonly madeKeysEndWith: ApiKeyId | null;
  /** Whether it is a live key of the operator's account, which manages the others (contract §2). */
  readonly isOperator: boolean;
  /** Of the account; see admission/plan-limits.ts. */
  readonly planLimits: PlanLimits;
  /** How the audit names it; `actor.id` is the id of the key or of the person. */
  readonly actor: Actor;
  /** Who has logged in; null: the caller is a program with a key or a token. */
  readonly person: Person | null;
  readonly requestId: RequestId;
}

export interface Person {
  readonly userId: UserId;
  readonly sessionId: SessionId;
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** What a key needs for this route; null: no key at all. Every route declares it. */
    scope?: Scope | null;
    /** In place of `scope`: any of these will do, and the route looks which of them the caller holds. */
    oneOfScopes?: readonly Scope[];
    /**
     * In place of an API key: an access token of the authorization server, which opens nothing else (contract
     * §13), or a browser session, which opens what its role allows besides. Such a route declares no scope.
     */
    credential?: 'access_token' | 'session';
    /** A change that needs no session, and must come from our own pages all the same: it begins one. */
    beginsSession?: true;
    /** Besides the scope: only keys of the operator. */
    operatorOnly?: boolean;
  }
  interface FastifyInstance {
    /** Every route with what it needs, as they are registered: for whoever lists or checks them. */
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
     * The caller as the key or session is now, for an answer that lasts: throws as authentication does. Null
     * but on routes with `oneOfScopes`.
     */
    callerNow: (() => Promise<Caller>) | null;
  }
}

/** The caller of a route that declares a scope. */
export const callerOf = (request: FastifyRequest): Caller =>
  must(request.caller, 'a route that asks for its caller declares a scope');
