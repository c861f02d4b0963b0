import type { CompiledRoutes } from '../../shared/decision/compile-routes.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { PassportId, RequestId } from '../../shared/model/ids.ts';
import { ChecksInOrder, type InOrderDeps } from '../enforce/checks-in-order.ts';
import type { Enforcer } from '../enforce/enforce.ts';
import type { OpenRequestHead } from '../enforce/open-request.ts';
import { errorReply } from '../enforce/replies.ts';
import type { IgnoredBody, Reply, RequestHead } from '../http/server.ts';
import { decisionAnswer, errorAnswer } from './answer.ts';
import { headersRead, readContext, valuesOf } from './read-context.ts';
import { shownPassport } from './show-passport.ts';

export interface ForwardAuthSettings {
  /** Who may ask without a key: peers on a loopback address, or nobody. */
  readonly trust: 'loopback' | 'none';
  /** Headers, in lower case, that the proxy sets itself: context is read from these alone. */
  readonly headers: readonly string[];
}

interface ForwardAuthDeps extends InOrderDeps {
  /** Of a gate, in their order. */
  readonly routesOf: (gateId: string) => CompiledRoutes;
  readonly enforcer: InOrderDeps['enforcer'] & Pick<Enforcer, 'admit' | 'admitPeer'>;
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

  constructor(deps: ForwardAuthDeps, { trust, headers }: ForwardAuthSettings) {
    this.#deps = deps;
    this.#trustsLoopback = trust === 'loopback';
    this.headerNames = headersRead(headers);
  }

  /** `pathBelow`: of the address, behind the id of the gate. Throws ApiError for whom it does not serve. */
  handle(
    head: RequestHead,
    { gateId, pathBelow }: { readonly gateId: string; readonly pathBelow: string },
    requestId: RequestId,
  ): Reply | IgnoredBody {
    const values = valuesOf(this.headerNames, head);
    const admitted = this.#admit(head, values.get('x-agent-trust-key') ?? '', gateId, requestId);
    const shown = shownPassport(head.authorization, values.get('x-agent-passport') ?? '');
    if (shown.kind !== 'token') {
      return errorAnswer(
        errorReply(new ApiError('unauthorized', { message: sentences[shown.kind] }), requestId),
        {
          passport: shown.kind,
        },
      );
    }
    const routes = this.#deps.routesOf(gateId);
    const { request, withoutPermission } = readContext(head, pathBelow, values, routes);
    const { token } = shown;
    return {
      ignoresBody: true,
      handle: (_body, responder) => {
        let passportId: PassportId | null = null;
        new ChecksInOrder(this.#deps, {
          items: [
            {
              kind: 'check',
              head: admitted,
              body: { passport: token, request },
              token,
              accept: (outcome) => {
                if (outcome.kind === 'verified') passportId = outcome.passport.passportId;
              },
            },
          ],
          requestId,
          responder,
          onEnd: ([reply]) => {
            if (reply !== undefined) responder.reply(decisionAnswer(reply, passportId, withoutPermission));
          },
        }).begin();
      },
    };
  }

  /** The peer is the one of the connection: whom it asks for says nothing about itself. */
  #admit(head: RequestHead, key: string, gateId: string, requestId: RequestId): OpenRequestHead {
    const { enforcer } = this.#deps;
    if (key !== '') return enforcer.admit({ authorization: `Bearer ${key}` }, gateId, requestId);
    if (this.#trustsLoopback && isLoopback(head.remoteAddress)) return enforcer.admitPeer(gateId, requestId);
    throw new ApiError('unauthorized', {
      message: 'Send an API key with the scope enforcement:check in the header X-Agent-Trust-Key.',
    });
  }
}

const sentences = {
  passport_missing:
    'Show a passport: send it as "Authorization: Passport <token>" or in the header X-Agent-Passport.',
  passport_ambiguous: 'Show one passport, once.',
} as const;

/** An IPv4 peer of an IPv6 socket comes as IPv4 (RequestHead). */
const isLoopback = (address: string): boolean => address === '::1' || address.startsWith('127.');
