/** Room `control-plane/creation`: how a POST creates once, in one transaction with its audit entry. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { contentHash } from '../../shared/crypto/content-hash.ts';
import { type ApiError, invalidRequest, renderError } from '../../shared/errors/api-error.ts';
import { limits } from '../../shared/model/limits.ts';
import { type AuditedChange, administer, type Changed } from '../audit/administer.ts';
import type { Transaction } from '../base/database.ts';
import type { AnswerBody } from '../http/answer-secrets.ts';
import { type Caller, callerOf } from '../http/caller.ts';
import { mayOnlyBeNew } from '../http/entity-tag.ts';
import { type ErrorReplies, toApiError } from '../http/error-reply.ts';
import type { SigningDeps } from '../signing/deps.ts';
import type { WriteChange } from '../sync/change-transaction.ts';
import { type Answer, claimKey, type KeyedRequest, storeAnswer } from './idempotent-answers.ts';
import { refuseTakenName, type UniqueName } from './unique-name.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** A POST that creates something: it takes an `Idempotency-Key` and answers through `creator`. */
    creates?: boolean;
  }
  interface FastifyRequest {
    /** Null without an `Idempotency-Key`, and until the body is read. */
    keyed: KeyedRequest | null;
  }
}

/**
 * `Idempotency-Key` on creating POSTs (contract §12): a request creates once, however often it is sent. An
 * idempotency key of an API key has three states:
 *
 *   unknown   Not used within 24 h. The first request that names it claims it.
 *   claimed   One transaction holds its lock, from its first statement to its end. In it the thing is created
 *             and the answer stored. Its commit leads to `answered`; whatever else ends it, a crash at any
 *             moment included, undoes both and leads back to `unknown`. Others that name the key wait for the
 *             lock, on whichever replica they are, and look again.
 *   answered  The answer is committed together with what was created. It is replayed for 24 h, then the key
 *             is unknown again.
 *
 * So the resource never exists without its stored answer. If client or replica do not learn the outcome of
 * the commit, the next request with the key does: it gets the answer, or creates the resource.
 *
 * A refusal (400, 404, 409, 412) created nothing. It claims the key afterwards and is stored, unless another
 * request with the key has an answer by then, which is given instead. Not stored: 401, 403, 429 and 5xx,
 * unreadable bodies, and conflicts over the key itself.
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

/** Of an API key, which has one mode, or of a person in the request's mode. */
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
   * Writes the resource and publishes it to the sidecars; see `changeTransaction`. It may have no other
   * lasting effect.
   */
  readonly create: (tx: Transaction, change: WriteChange) => Promise<Created>;
  /** Takes `If-None-Match: *` by this name. Absent: the header is ignored. */
  readonly named?: UniqueName;
  /** As in `Beginning`, of `create`. */
  readonly readsFirst?: boolean;
  /**
   * Runs after the commit and before the answer, which gets the members that it resolves to; not for a
   * replay. Must not reject.
   */
  readonly afterCommit?: (made: Created) => Promise<AnswerBody>;
  /** The answer, with its one-time secrets where `withoutSecrets` expects them. */
  readonly render: (made: Created) => AnswerBody;
  /** The change for the audit. */
  readonly audit: (made: Created) => AuditedChange;
  /** Owner of the audit chain; absent: the caller. */
  readonly caller?: Caller;
}

/**
 * The answer of a route with `creates`: 201 with the new resource, in one transaction with the stored answer
 * if the request has an `Idempotency-Key`; or the key's stored answer with `Idempotent-Replayed: true`.
 */
export const creator =
  (deps: CreatorDeps) =>
  async <Created>(
    request: FastifyRequest,
    reply: FastifyReply,
    creation: Creation<Created>,
  ): Promise<FastifyReply> => {
    const { create, readsFirst = false, afterCommit, render, audit, caller = callerOf(request) } = creation;
    const { keyed, headers } = request;
    const { named } = creation;
    const isOnlyNew = named !== undefined && mayOnlyBeNew(headers['if-none-match']);
    let after = async (): Promise<AnswerBody> => ({});
    const outcome = await administer(
      deps,
      caller,
      async (tx, change): Promise<Changed<Outcome>> => {
        const stored = keyed === null ? null : await claimKey(tx, deps, keyed);
        if (stored !== null) return { result: { answer: stored, isReplayed: true }, audited: null };
        if (isOnlyNew) await refuseTakenName(tx, caller, named);
        const made = await create(tx, change);
        if (afterCommit !== undefined) after = () => afterCommit(made);
        const answer: Answer = { status: 201, body: render(made) };
        if (keyed !== null) await storeAnswer(tx, deps, { request: keyed, answer });
        return { result: { answer, isReplayed: false }, audited: audit(made) };
      },
      { readsFirst: readsFirst && keyed === null && !isOnlyNew },
    );
    const { status, body } = outcome.answer;
    const answer = { status, body: { ...body, ...(await after()) } };
    return sendOutcome(reply, { ...outcome, answer });
  };

interface Outcome {
  readonly answer: Answer;
  /** Whether it is the answer to an earlier request. */
  readonly isReplayed: boolean;
}

/** The key's stored answer, or this refusal, which is then stored. */
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
