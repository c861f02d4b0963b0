import type { FastifyInstance } from 'fastify';
import { runInTrace } from '../../shared/runtime/current-trace.ts';
import { parseTraceparent, type TraceContext } from '../../shared/wire/trace-context.ts';

/**
 * What a request with a valid `traceparent` does belongs to its trace: its log lines and the webhooks that it
 * causes name it. Without the header this is one look.
 */
export function installRequestTrace(app: FastifyInstance): void {
  const traces = new WeakMap<object, TraceContext>();
  app.addHook('onRequest', (request, _reply, done) => {
    const { traceparent } = request.headers;
    const trace = traceparent === undefined ? null : parseTraceparent(traceparent);
    if (trace === null) return done();
    traces.set(request.raw, trace);
    runInTrace(trace, done);
  });
  // The body comes with events of the connection, which belong to no request.
  app.addHook('preValidation', (request, _reply, done) => {
    const trace = request.headers['traceparent'] === undefined ? undefined : traces.get(request.raw);
    if (trace === undefined) return done();
    runInTrace(trace, done);
  });
}
