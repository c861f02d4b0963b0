import type { CompiledRoutes } from '../../../shared/decision/compile-routes.ts';
import { ApiError } from '../../../shared/errors/api-error.ts';
import type { PassportId, RequestId } from '../../../shared/model/ids.ts';
import type { Enforcer } from '../../settle/asking.ts';
import type { OpenRequestHead } from '../../decide/check.ts';
import { type CheckReply, type CheckResponder, errorReply } from '../../decide/replies.ts';
import type { IgnoredBody, Reply, RequestHead, Responder } from '../../http/server.ts';
import type { PassportVerifier, TokenOutcome } from '../../verify/verifier.ts';
import { decisionAnswer, errorAnswer } from './answer.ts';
import { ContextReader, type ForwardedContext, headersRead } from './read-context.ts';
import { shownPassport } from './show-passport.ts';

export interface ForwardAuthSettings {
  /** Who may ask without a key: peers on a loopback address, or nobody. */
  readonly trust: 'loopback' | 'none';
  /** Headers, in lower case, that the proxy sets itself: context is read from these alone. */
  readonly headers: readonly string[];
}

interface ForwardAuthDeps {
  /** Of a gate, in their order. */
  readonly routesOf: (gateId: string) => CompiledRoutes;
  readonly enforcer: Pick<Enforcer, 'admit' | 'admitPeer' | 'ask'>;
  readonly verifier: Pick<PassportVerifier, 'known' | 'verify'>;
}

/**
 * The per-gate address, `/<gate_id>` and everything below it (contract §15): the question of `check` as a
 * proxy asks it, in headers. It is decided, charged, limited and recorded as a check is.
 */
export class ForwardAuth {
  /** For `ListenOptions.headerNamesOf`. */
  readonly headerNames: readonly string[];
  readonly #deps: ForwardAuthDeps;
  readonly #trustsLoopback: boolean;
  readonly #reader: ContextReader;

  constructor(deps: ForwardAuthDeps, { trust, headers }: ForwardAuthSettings) {
    this.#deps = deps;
    this.#trustsLoopback = trust === 'loopback';
    this.headerNames = headersRead(headers);
    this.#reader = new ContextReader(this.headerNames);
  }

  /** `pathBelow`: of the address, behind the id of the gate. Throws ApiError for whom it does not serve. */
  handle(
    head: RequestHead,
    { gateId, pathBelow }: { readonly gateId: string; readonly pathBelow: string },
    requestId: RequestId,
  ): Reply | IgnoredBody {
    const { passport, key } = this.#reader.proofs(head.headers);
    const admitted = this.#admit(head, key, gateId, requestId);
    const shown = shownPassport(head.authorization, passport);
    if (shown.kind !== 'token') {
      this.#refuseUnknownGate(gateId, admitted);
      return errorAnswer(
        errorReply(new ApiError('unauthorized', { message: sentences[shown.kind] }), requestId),
        {
          passport: shown.kind,
        },
      );
    }
    const context = this.#reader.read(head, pathBelow, this.#deps.routesOf(gateId));
    const { token } = shown;
    return {
      ignoresBody: true,
      handle: (_body, responder) => {
        new ForwardedCheck(this.#deps, { head: admitted, token, context }, responder).begin();
      },
    };
  }

  /** Whom a gate is unknown to is told so without a passport, too: a key tries its gate out by that. */
  #refuseUnknownGate(gateId: string, { caller }: OpenRequestHead): void {
    if (this.#deps.enforcer.admitPeer(gateId).mode !== caller.mode) throw new ApiError('gate_not_found');
  }

  /** The peer is the one of the connection: whom it asks for says nothing about itself. */
  #admit(head: RequestHead, key: string, gateId: string, requestId: RequestId): OpenRequestHead {
    const { enforcer } = this.#deps;
    if (key !== '') return enforcer.admit({ authorization: `Bearer ${key}` }, gateId, requestId);
    if (this.#trustsLoopback && isLoopback(head.remoteAddress))
      return { requestId, caller: enforcer.admitPeer(gateId), gateId, authorization: null };
    throw new ApiError('unauthorized', {
      message: 'Send an API key with the scope enforcement:check in the header X-Agent-Trust-Key.',
    });
  }
}

/** What `check` would be asked, and by whom. */
interface ForwardedQuestion {
  readonly head: OpenRequestHead;
  readonly token: string;
  readonly context: ForwardedContext;
}

/**
 * One question on its way. Its passport is verified before it is asked, so that also the answer to a request
 * that is refused names it.
 */
class ForwardedCheck implements CheckResponder {
  readonly #deps: Pick<ForwardAuthDeps, 'enforcer' | 'verifier'>;
  readonly #question: ForwardedQuestion;
  readonly #responder: Responder;
  #passportId: PassportId | null = null;

  constructor(
    deps: Pick<ForwardAuthDeps, 'enforcer' | 'verifier'>,
    question: ForwardedQuestion,
    responder: Responder,
  ) {
    this.#deps = deps;
    this.#question = question;
    this.#responder = responder;
  }

  begin(): void {
    const { verifier } = this.#deps;
    const { token } = this.#question;
    const passport = verifier.known(token);
    if (passport !== null) this.#ask({ kind: 'verified', passport });
    else verifier.verify(token, (outcome) => this.#ask(outcome));
  }

  #ask(outcome: TokenOutcome): void {
    if (this.isAborted) return;
    if (outcome.kind === 'verified') this.#passportId = outcome.passport.passportId;
    const { head, token, context } = this.#question;
    this.#deps.enforcer.ask(head, { passport: token, request: context.request }, this, outcome);
  }

  get isAborted(): boolean {
    return this.#responder.isAborted;
  }

  reply(reply: CheckReply): void {
    this.#responder.reply(decisionAnswer(reply, this.#passportId, this.#question.context.withoutPermission));
  }
}

const sentences = {
  passport_missing:
    'Show a passport: send it as "Authorization: Passport <token>" or in the header X-Agent-Passport.',
  passport_ambiguous: 'Show one passport, once.',
} as const;

/** An IPv4 peer of an IPv6 socket comes as IPv4 (RequestHead). */
const isLoopback = (address: string): boolean => address === '::1' || address.startsWith('127.');
