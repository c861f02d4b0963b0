import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { runInTrace } from '../../shared/runtime/current-trace.ts';
import type { Span } from '../../shared/telemetry/tracer.ts';
import { parseTraceparent, type TraceContext } from '../../shared/wire/api/trace-context.ts';
import type { BaseDeps } from '../base/deps.ts';

/** Asked every few seconds, by programs whose traces nobody reads. */
const unspanned: ReadonlySet<string | undefined> = new Set(['/livez', '/readyz', '/metrics']);

/** Of a request that is traced: what it causes belongs to `trace`. Null: no span of it is exported. */
interface Traced {
  readonly trace: TraceContext;
  readonly span: Span | null;
}

/**
 * What a request with a valid `traceparent` does belongs to its trace: its log lines and the webhooks that it
 * causes name it. With a tracer each request has a span, which is the parent of what it causes. Without
 * either this is one look.
 */
export function installRequestTrace(app: FastifyInstance, { tracer }: Pick<BaseDeps, 'tracer'>): void {
  const traced = new WeakMap<object, Traced>();
  const tracedOf = (request: FastifyRequest): Traced | undefined =>
    tracer === null && request.headers['traceparent'] === undefined ? undefined : traced.get(request.raw);

  app.addHook('onRequest', (request, _reply, done) => {
    const { traceparent, tracestate } = request.headers;
    const incoming = traceparent === undefined ? null : parseTraceparent(traceparent, tracestate);
    const isSpanned = tracer !== null && !unspanned.has(request.routeOptions.url);
    const span = isSpanned ? tracer.start(request.method, { kind: 'server', parent: incoming }) : null;
    const trace = span?.trace ?? incoming;
    if (trace === null) return done();
    traced.set(request.raw, { trace, span });
    runInTrace(trace, done);
  });
  // The body comes with events of the connection, which belong to no request.
  app.addHook('preValidation', (request, _reply, done) => {
    const found = tracedOf(request);
    if (found === undefined) return done();
    runInTrace(found.trace, done);
  });
  if (tracer === null) return;
  app.addHook('onResponse', async (request, reply) => {
    traced.get(request.raw)?.span?.end(endOf(request, reply));
  });
  app.addHook('onRequestAbort', async (request) => {
    traced.get(request.raw)?.span?.end(endOf(request, null));
  });
}

/** By route, never by address: addresses contain ids, and queries may contain more. Null: its client left. */
function endOf(request: FastifyRequest, reply: FastifyReply | null) {
  const { method } = request;
  const route = request.is404 ? undefined : request.routeOptions.url;
  return {
    name: route === undefined ? method : `${method} ${route}`,
    attributes: {
      'http.request.method': method,
      ...(route !== undefined && { 'http.route': route }),
      ...(reply === null
        ? { 'error.type': 'client_gone' }
        : { 'http.response.status_code': reply.statusCode }),
      'agent_trust.request_id': request.id,
    },
    isError: reply === null || reply.statusCode >= 500,
  };
}
