import type { RequestWriter } from '../../../shared/crypto/request-writer.ts';
import type { CompiledRoutes } from '../../../shared/decision/compile-routes.ts';
import { ApiError } from '../../../shared/errors/api-error.ts';
import type { PassportId, RequestId } from '../../../shared/model/ids.ts';
import { parseUsd } from '../../../shared/model/money.ts';
import type { PermissionKey } from '../../../shared/model/permission.ts';
import type { UnixMillis } from '../../../shared/model/time.ts';
import type { RequestObject } from '../../../shared/wire/api/check.ts';
import type { CheckHead, OpenCheck } from '../../decide/check.ts';
import { type CheckReply, type CheckResponder, errorReply } from '../../decide/replies.ts';
import type { IgnoredBody, Reply, RequestHead, Responder } from '../../http/server.ts';
import type { Intake } from '../intake.ts';
import { canonicalCheck, type ReadCheck } from '../read-check.ts';
import { decisionAnswer, errorAnswer } from './answer.ts';
import { ContextReader, headersRead } from './read-context.ts';
import { shownPassport } from './show-passport.ts';

export interface ForwardAuthSettings {
  /** Peers trusted without a key: those on a loopback address, or none. */
  readonly trust: 'loopback' | 'none';
  /** Headers, in lower case, that the proxy sets itself: context is read from these alone. */
  readonly headers: readonly string[];
}

interface ForwardAuthDeps {
  /** Of a gate, in their order. */
  readonly routesOf: (gateId: string) => CompiledRoutes;
  /** Of its shadow; null: it has none, or the same. */
  readonly shadowRoutesOf: (gateId: string) => CompiledRoutes | null;
  readonly intake: Pick<Intake, 'admit' | 'admitPeer' | 'refuseUnknownGate' | 'open' | 'ask' | 'moment'>;
  readonly writer: RequestWriter;
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
    this.#reader = new ContextReader(this.headerNames, headers);
  }

  /** `pathBelow`: of the address, behind the gate's id. Throws ApiError for a caller that is not served. */
  handle(
    head: RequestHead,
    { gateId, pathBelow }: { readonly gateId: string; readonly pathBelow: string },
    { requestId, nowMs }: { readonly requestId: RequestId; readonly nowMs: UnixMillis },
  ): Reply | IgnoredBody {
    const { intake, writer, routesOf, shadowRoutesOf } = this.#deps;
    const { passport, key } = this.#reader.credentials(head.headers);
    const { traceparent, tracestate } = head;
    const admitted = { requestId, gateId, traceparent, tracestate, ...this.#admit(head, key, gateId, nowMs) };
    const shown = shownPassport(head.authorization, passport);
    if (shown.kind !== 'token') {
      // A gate that is unknown to its caller is told so without a passport, too: a key tries its gate so.
      intake.refuseUnknownGate(gateId, admitted.caller);
      const error = new ApiError('unauthorized', { message: sentences[shown.kind] });
      return errorAnswer(errorReply(error, requestId), shown.kind);
    }
    const { request, withoutPermission } = this.#reader.read(head, pathBelow, routesOf(gateId));
    const check = canonicalCheck({ passport: shown.token, request }, writer, false);
    const others = shadowRoutesOf(gateId);
    const read =
      others === null
        ? check
        : { ...check, underShadow: routedOf(this.#reader.read(head, pathBelow, others).request) };
    return {
      ignoresBody: true,
      handle: (_body, responder) =>
        new ForwardedCheck(responder, withoutPermission).ask(intake, admitted, read),
    };
  }

  /** The peer is the one of the connection: what it asks for says nothing about itself. */
  #admit(
    { remoteAddress }: RequestHead,
    key: string,
    gateId: string,
    nowMs: UnixMillis,
  ): Pick<CheckHead, 'caller' | 'authorization'> {
    const { intake } = this.#deps;
    if (key !== '') {
      const authorization = `Bearer ${key}`;
      return { caller: intake.admit(authorization, nowMs), authorization };
    }
    if (this.#trustsLoopback && isLoopback(remoteAddress))
      return { caller: intake.admitPeer(gateId), authorization: null };
    throw new ApiError('unauthorized', {
      message: 'Send an API key with the scope enforcement:check in the header X-Agent-Trust-Key.',
    });
  }
}

/** What follows from the routes. */
const routedOf = ({ permission_key: key, amount }: RequestObject): NonNullable<ReadCheck['underShadow']> => ({
  permissionKey: (key as PermissionKey | undefined) ?? null,
  amountMicroUsd: typeof amount === 'number' ? parseUsd(amount) : null,
});

/** One question on its way. A decision names the passport, if that verified. */
class ForwardedCheck implements CheckResponder {
  readonly #responder: Responder;
  readonly #withoutPermission: string | null;
  #check: OpenCheck | null = null;

  constructor(responder: Responder, withoutPermission: string | null) {
    this.#responder = responder;
    this.#withoutPermission = withoutPermission;
  }

  ask(intake: ForwardAuthDeps['intake'], head: CheckHead, read: ReadCheck): void {
    const moment = intake.moment();
    this.#check = intake.open(head, this, moment.monotonicMs, moment);
    intake.ask(this.#check, read, moment);
  }

  get isAborted(): boolean {
    return this.#responder.isAborted;
  }

  get #passportId(): PassportId | null {
    const token = this.#check?.token ?? null;
    return token?.kind === 'verified' ? token.passport.passportId : null;
  }

  reply(reply: CheckReply): void {
    this.#responder.reply(decisionAnswer(reply, this.#passportId, this.#withoutPermission));
  }
}

const sentences = {
  passport_missing:
    'Show a passport: send it as "Authorization: Passport <token>" or in the header X-Agent-Passport.',
  passport_ambiguous: 'Show one passport, once.',
} as const;

/** An IPv4 peer of an IPv6 socket comes as IPv4 (RequestHead). */
const isLoopback = (address: string): boolean => address === '::1' || address.startsWith('127.');
