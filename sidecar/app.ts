import type { RequestWriter } from '../shared/crypto/request-writer.ts';
import type { CompiledRoutes } from '../shared/decision/compile-routes.ts';
import { ApiError, invalidRequest } from '../shared/errors/api-error.ts';
import { unreachable } from '../shared/errors/assert.ts';
import type { RequestId } from '../shared/model/ids.ts';
import { limits } from '../shared/model/limits.ts';
import type { UnixMillis } from '../shared/model/time.ts';
import type { Clock } from '../shared/runtime/clock.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import type { Random } from '../shared/runtime/random.ts';
import { assertAuthzenHeaders } from '../shared/wire/api/authzen.ts';
import { isIdentity } from '../shared/wire/api/request-headers.ts';
import { traceFields } from '../shared/wire/api/trace-context.ts';
import type { Answers } from './decide/answers.ts';
import type { CheckHead } from './decide/check.ts';
import { errorReply, jsonReply, textReply } from './decide/replies.ts';
import { isAuthzenPath, isForwardAuthPath, type Route, routeOf, streamPath } from './http/routes.ts';
import type {
  BodyHandler,
  IgnoredBody,
  LargeBody,
  ListenOptions,
  Refusal,
  Reply,
  RequestHead,
  Upgrade,
} from './http/server.ts';
import { authzenConfiguration } from './intake/authzen/configuration.ts';
import { echoRequestId } from './intake/authzen/echo-request-id.ts';
import { evaluate } from './intake/authzen/evaluate.ts';
import { checkBatch } from './intake/batch.ts';
import { errorAnswer } from './intake/forward-auth/answer.ts';
import { ForwardAuth, type ForwardAuthSettings } from './intake/forward-auth/forward-auth.ts';
import { lacksMethod } from './intake/forward-auth/read-context.ts';
import { httpCheck } from './intake/http-check.ts';
import type { Intake } from './intake/intake.ts';
import type { KeptBodies } from './intake/kept-bodies.ts';
import { type Outcomes, takeOutcome } from './intake/outcomes.ts';
import type { Standings } from './intake/standings.ts';
import { handshakeHeaders } from './intake/stream/handshake.ts';
import type { Streams } from './intake/stream/streams.ts';
import type { Turns } from './intake/turns.ts';
import { type Observed, readinessOf } from './operations/readiness.ts';

export interface SidecarAppDeps {
  readonly intake: Intake;
  readonly answers: Answers;
  readonly outcomes: Outcomes;
  readonly turns: Turns;
  readonly bodies: KeptBodies;
  readonly writer: RequestWriter;
  readonly forwardAuth: ForwardAuthSettings;
  /** Of a gate, in their order. */
  readonly routesOf: (gateId: string) => CompiledRoutes;
  readonly shadowRoutesOf: (gateId: string) => CompiledRoutes | null;
  readonly streams: Pick<Streams, 'upgrade'>;
  readonly standings: Pick<Standings, 'take'>;
  readonly observed: Observed;
  /** Of this sidecar, as its callers reach it; known once it listens. */
  readonly origin: () => string;
  /** The AuthZEN access request endpoint, at the control plane. */
  readonly requestsUrl: string;
  /** What `/openapi.json` answers, as it is sent. */
  readonly openApi: string;
  /** The text of `/metrics`, with the content type that says its version. */
  readonly metrics: { readonly contentType: string; text(): Promise<string> };
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
}

/**
 * The sidecar's HTTP surface, for a server to serve. It listens nowhere and owns nothing that would have to
 * be closed.
 */
export interface SidecarApp
  extends Pick<ListenOptions, 'handler' | 'refuse' | 'headerNamesOf' | 'streamPath'> {
  /** From now on `/readyz` answers 503, so that load balancers send no more; requests are still answered. */
  startDraining(): void;
}

/**
 * Addresses outside `/v1` need no key (contract §1). An address that does not exist answers 404 to everybody,
 * as at the control plane; everything else is in the order of contract §5.
 */
export const buildSidecar = (deps: SidecarAppDeps): SidecarApp => new Surface(deps);

type Served = Reply | BodyHandler | LargeBody | IgnoredBody | Upgrade;

/** A server takes its functions one by one, so these are members and not methods. */
class Surface implements SidecarApp {
  readonly #deps: SidecarAppDeps;
  readonly #forwardAuth: ForwardAuth;
  readonly #startedAtMs: UnixMillis;
  readonly streamPath = streamPath;
  #isDraining = false;

  constructor(deps: SidecarAppDeps) {
    this.#deps = deps;
    this.#startedAtMs = deps.clock.now();
    this.#forwardAuth = new ForwardAuth(deps, deps.forwardAuth);
    if (!lacksMethod(deps.forwardAuth.headers)) return;
    deps.logger.warn(
      { headers: deps.forwardAuth.headers },
      'FORWARD_AUTH_HEADERS names a header for the original target and none for its method: routes are matched with the method that the proxy asks with',
    );
  }

  readonly handler = (head: RequestHead): Served => {
    const { clock, random, answers } = this.#deps;
    const nowMs = clock.now();
    const requestId = random.newId('req', nowMs);
    try {
      if (head.repeated === 'host') refuseRepeated(head);
      const route = routeOf(head);
      // A proxy asks for an agent, and understands 401: see shownPassport.
      if (route.kind !== 'forward_auth') refuseRepeated(head);
      return this.#serve(route, { head, requestId, nowMs });
    } catch (error) {
      return answers.failure(error, requestId, head.traceparent);
    }
  };

  readonly headerNamesOf = (path: string): readonly string[] => {
    if (isForwardAuthPath(path)) return this.#forwardAuth.headerNames;
    if (isAuthzenPath(path)) return authzenHeaders;
    return path === streamPath ? handshakeHeaders : noHeaders;
  };

  readonly refuse = (refusal: Refusal, bodyBytesMax?: number): Reply => {
    const { answers, clock, random } = this.#deps;
    return answers.failure(refusals[refusal](bodyBytesMax), random.newId('req', clock.now()));
  };

  startDraining(): void {
    this.#isDraining = true;
  }

  #serve(route: Route, { head, requestId, nowMs }: Arrived): Served {
    const deps = this.#deps;
    switch (route.kind) {
      case 'check':
        return reading(httpCheck(deps, head, { gateId: route.gateId, requestId, nowMs }), head);
      case 'enforce':
        return reading(httpCheck(deps, head, { gateId: null, requestId, nowMs }), head);
      case 'outcome':
        return reading(takeOutcome(deps, head, { ...route, requestId, nowMs }), head);
      case 'standing':
        return reading(deps.standings.take(head, { gateId: route.gateId, requestId, nowMs }), head);
      case 'check_batch':
        return reading(checkBatch(deps, this.#admitted(head, route.gateId, { requestId, nowMs })), head);
      case 'forward_auth':
        return this.#admitForwarded(route, head, { requestId, nowMs });
      case 'stream':
        return deps.streams.upgrade(head, { requestId, nowMs });
      case 'evaluation':
      case 'evaluations':
        return echoRequestId(
          head.headers[0] ?? '',
          this.#admitEvaluation(route.kind, head, { requestId, nowMs }),
        );
      case 'authzen_configuration':
        return jsonReply(200, authzenConfiguration(deps.origin(), deps.requestsUrl), requestId);
      case 'livez':
        return jsonReply(200, '{"status":"live"}', requestId);
      case 'readyz':
        return this.#readiness(requestId);
      case 'metrics':
        return this.#metrics(requestId, head.traceparent);
      case 'openapi':
        return jsonReply(200, deps.openApi, requestId);
      default:
        return unreachable(route);
    }
  }

  #admitted(
    { authorization, traceparent, tracestate }: RequestHead,
    gateId: string | null,
    { requestId, nowMs }: Omit<Arrived, 'head'>,
  ): CheckHead {
    const caller = this.#deps.intake.admit(authorization, nowMs);
    return { requestId, caller, authorization, gateId, traceparent, tracestate };
  }

  #admitForwarded(
    route: Extract<Route, { kind: 'forward_auth' }>,
    head: RequestHead,
    arrived: Omit<Arrived, 'head'>,
  ): Reply | IgnoredBody {
    try {
      return this.#forwardAuth.handle(head, route, arrived);
    } catch (error) {
      const { requestId } = arrived;
      return errorAnswer(this.#deps.answers.failure(error, requestId, head.traceparent));
    }
  }

  #admitEvaluation(
    kind: 'evaluation' | 'evaluations',
    head: RequestHead,
    arrived: Omit<Arrived, 'head'>,
  ): Reply | LargeBody {
    try {
      const { gateId: _, ...evaluator } = this.#admitted(head, null, arrived);
      const outcome = reading(evaluate(this.#deps, evaluator, kind === 'evaluations'), head);
      const [requestId = '', contentType = ''] = head.headers;
      assertAuthzenHeaders(requestId, contentType);
      return outcome;
    } catch (error) {
      return this.#deps.answers.failure(error, arrived.requestId, head.traceparent);
    }
  }

  #readiness(requestId: RequestId): Reply {
    const { observed, clock } = this.#deps;
    const isDraining = this.#isDraining;
    const readiness = readinessOf(observed, {
      ...{ isDraining, nowMs: clock.now(), startedAtMs: this.#startedAtMs },
    });
    return jsonReply(readiness.status === 'ready' ? 200 : 503, JSON.stringify(readiness), requestId);
  }

  #metrics(requestId: RequestId, traceparent: string): BodyHandler {
    const { metrics, logger } = this.#deps;
    return (_body, responder) => {
      metrics.text().then(
        (text) => responder.reply(textReply(text, metrics.contentType, requestId)),
        (error: unknown) => {
          const about = { err: error, request_id: requestId, ...traceFields(traceparent) };
          logger.error(about, 'the metrics could not be collected');
          responder.reply(errorReply(new ApiError('internal_error'), requestId));
        },
      );
    };
  }
}

/** A request when its head was read. */
interface Arrived {
  readonly head: RequestHead;
  readonly requestId: RequestId;
  readonly nowMs: UnixMillis;
}

function refuseRepeated({ repeated }: RequestHead): void {
  if (repeated !== null) throw invalidRequest(repeated, `Send the header ${repeated} once.`);
}

/** A body is read as it comes, or not at all. */
function reading<Outcome extends BodyHandler | LargeBody>(
  outcome: Outcome,
  { contentEncoding }: RequestHead,
): Outcome {
  if (!isIdentity(contentEncoding)) throw new ApiError('unsupported_media_type');
  return outcome;
}

const noHeaders: readonly string[] = [];
const authzenHeaders: readonly string[] = ['x-request-id', 'content-type'];

/** What the server refuses by itself, in the control plane's words. */
const refusals = {
  body_too_large: (bytesMax: number = limits.bodyBytesMax) =>
    new ApiError('body_too_large', { message: `The body must be at most ${bytesMax} bytes.` }),
  content_length: () =>
    new ApiError('invalid_request', {
      message: 'Send exactly one Content-Length header, with the number of bytes of the body in decimal.',
    }),
  headers_too_large: () =>
    new ApiError('invalid_request', {
      message: `The header block must be at most ${limits.headerBytesMax} bytes.`,
    }),
  transfer_encoding: () =>
    new ApiError('invalid_request', {
      message: 'Send the body whole, with a Content-Length header: Transfer-Encoding is not accepted here.',
    }),
  invalid_request: () => new ApiError('invalid_request', { message: 'This is not a valid HTTP request.' }),
  internal_error: () => new ApiError('internal_error'),
  overloaded: () => new ApiError('overloaded'),
} as const satisfies Readonly<Record<Refusal, (bytesMax?: number) => ApiError>>;
