/** Room `control-plane/creation`: how a POST creates once, in one transaction with its audit entry. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { contentHash } from '../../shared/crypto/content-hash.ts';
import { type ApiError, invalidRequest, renderError } from '../../shared/errors/api-error.ts';
import { limits } from '../../shared/model/limits.ts';
import { type AuditedChange, administer, type Changed } from '../audit/administer.ts';
import type { Transaction } from '../base/database.ts';
import type { AnswerBody } from '../http/answer-secrets.ts';
import { type Caller, callerOf } from '../http/caller.ts';
import { type ErrorReplies, toApiError } from '../http/error-reply.ts';
import type { SigningDeps } from '../signing/deps.ts';
import type { WriteChange } from '../sync/change-transaction.ts';
import { type Answer, claimKey, type KeyedRequest, storeAnswer } from './idempotent-answers.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** A POST that creates something: it takes an `Idempotency-Key` and answers through `creator`. */
    creates?: boolean;
  }
  interface FastifyRequest {
    /** Null without an `Idempotency-Key`, and until the body has been read. */
    keyed: KeyedRequest | null;
  }
}

/**
 * `Idempotency-Key` on creating POSTs (contract §12): however often a request is sent, what it asks for is
 * created once. A key of an API key is in one of three states:
 *
 *   unknown   Nobody used it within 24 h. The first request that names it claims it.
 *   claimed   One transaction holds its lock, from its first statement to its end. In it the thing is created
 *             and the answer stored. Its commit leads to `answered`; whatever else ends it, a crash at any
 *             moment included, undoes both and leads back to `unknown`. Others that name the key wait for the
 *             lock, on whichever replica they are, and look again.
 *   answered  The answer is committed together with what was created. It is replayed for 24 h, then the key
 *             is unknown again.
 *
 * So there is no moment at which the thing is there and its answer is not. Where the client or this replica
 * does not learn the outcome of the commit, the next request with the key finds out: it gets the answer, or
 * it creates the thing.
 *
 * A refusal (400, 404, 409) created nothing. It claims the key for itself after the fact and is stored; if
 * another request with the key has got an answer meanwhile, that one is given. Not stored are 401, 403, 429
 * and 5xx, a body that cannot be read, and a conflict over the key itself.
 */
export function installIdempotency(
  app: FastifyInstance,
  deps: CreatorDeps,
  { reply: replyToError }: Pick<ErrorReplies, 'reply'>,
): void {
  app.decorateRequest('keyed', null);

  app.addHook('onRequest', async ({ routeOptions, headers }) => {
    if (routeOptions.config.creates === true) readIdempotencyKey(headers['idempotency-key']);
  });

  app.addHook('preValidation', async (request) => {
    const { routeOptions, headers, method, url, body } = request;
    if (routeOptions.config.creates !== true) return;
    const idempotencyKey = readIdempotencyKey(headers['idempotency-key']);
    if (idempotencyKey === null) return;
    const path = url.split('?', 1)[0];
    const fingerprint = contentHash({ method, path, body });
    request.keyed = { callerId: idOf(callerOf(request)), idempotencyKey, fingerprint };
  });

  app.addHook('onRoute', (route) => {
    if (route.config?.creates !== true) return;
    route.errorHandler = async (error, request, reply) => {
      const refusal = toApiError(error);
      const { keyed } = request;
      if (keyed !== null && isStored(refusal)) {
        const { status } = refusal;
        const body = { ...renderError(refusal, request.id) };
        const outcome = await refuseOnce(deps, keyed, { status, body });
        if (outcome.isReplayed) return sendOutcome(reply, outcome);
      }
      replyToError(error, request, reply);
    };
  });
}

/** Of a key, which has one mode; of a person in the mode of the request. */
const idOf = ({ actor, person, mode }: Caller): string =>
  person === null ? actor.id : `${actor.id} ${mode}`;

/** 1 to `limits.idempotencyKeyCharsMax` characters of visible ASCII. Null: none was sent. */
function readIdempotencyKey(header: string | string[] | undefined): string | null {
  if (header === undefined) return null;
  if (typeof header !== 'string' || !idempotencyKeyPattern.test(header)) {
    throw invalidRequest(
      'Idempotency-Key',
      `Idempotency-Key must be 1 to ${limits.idempotencyKeyCharsMax} visible ASCII characters without spaces.`,
    );
  }
  return header;
}

const idempotencyKeyPattern = new RegExp(`^[!-~]{1,${limits.idempotencyKeyCharsMax}}$`);

const isStored = ({ code, status }: ApiError): boolean =>
  status >= 400 && status < 500 && ![401, 403, 429].includes(status) && code !== 'idempotency_conflict';

type CreatorDeps = Pick<SigningDeps, 'sql' | 'clock' | 'random' | 'bus' | 'signingKeys' | 'sealer'>;

export interface Creation<Created> {
  /**
   * Writes what is created and publishes it to the sidecars; see `changeTransaction`. Nothing else that it
   * does may outlive the transaction.
   */
  readonly create: (tx: Transaction, change: WriteChange) => Promise<Created>;
  /** As in `Beginning`, of `create`. */
  readonly readsFirst?: boolean;
  /**
   * What the answer waits for besides: after the commit, not where an earlier answer is replayed. Must not
   * reject.
   */
  readonly afterCommit?: (made: Created) => Promise<void>;
  /** The answer. Its one-time secrets stand where `withoutSecrets` looks for them. */
  readonly render: (made: Created) => AnswerBody;
  /** How the audit describes it. */
  readonly audit: (made: Created) => AuditedChange;
  /** In whose chain; absent: the caller's. */
  readonly caller?: Caller;
}

/**
 * How a route with `creates` answers: 201 with what it created, in one transaction with the stored answer
 * where the request carries an `Idempotency-Key`; or the answer that the key already has, with
 * `Idempotent-Replayed: true`.
 */
export const creator =
  (deps: CreatorDeps) =>
  async <Created>(
    request: FastifyRequest,
    reply: FastifyReply,
    { create, readsFirst = false, afterCommit, render, audit, caller = callerOf(request) }: Creation<Created>,
  ): Promise<FastifyReply> => {
    const { keyed } = request;
    let after = async (): Promise<void> => undefined;
    const outcome = await administer(
      deps,
      caller,
      async (tx, change): Promise<Changed<Outcome>> => {
        const stored = keyed === null ? null : await claimKey(tx, deps, keyed);
        if (stored !== null) return { result: { answer: stored, isReplayed: true }, audited: null };
        const made = await create(tx, change);
        if (afterCommit !== undefined) after = () => afterCommit(made);
        const answer: Answer = { status: 201, body: render(made) };
        if (keyed !== null) await storeAnswer(tx, deps, { request: keyed, answer });
        return { result: { answer, isReplayed: false }, audited: audit(made) };
      },
      { readsFirst: readsFirst && keyed === null },
    );
    await after();
    return sendOutcome(reply, outcome);
  };

interface Outcome {
  readonly answer: Answer;
  /** Whether it is the answer to an earlier request. */
  readonly isReplayed: boolean;
}

/** The answer that this key already has, or else this refusal, stored. */
const refuseOnce = (deps: CreatorDeps, keyed: KeyedRequest, refusal: Answer): Promise<Outcome> =>
  deps.sql.begin(async (tx) => {
    const stored = await claimKey(tx, deps, keyed);
    if (stored !== null) return { answer: stored, isReplayed: true };
    await storeAnswer(tx, deps, { request: keyed, answer: refusal });
    return { answer: refusal, isReplayed: false };
  });

function sendOutcome(reply: FastifyReply, { answer, isReplayed }: Outcome): FastifyReply {
  if (isReplayed) reply.header('idempotent-replayed', 'true');
  return reply.code(answer.status).send(answer.body);
}
