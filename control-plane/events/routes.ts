import type { FastifyPluginAsync } from 'fastify';
import { Type } from 'typebox';
import { must } from '../../shared/errors/assert.ts';
import type { Scope } from '../../shared/model/scopes.ts';
import type { BaseDeps } from '../base/deps.ts';
import { callerOf } from '../http/caller.ts';
import { operationsOf } from '../http/operation.ts';
import { EventStreams } from './event-streams.ts';
import { hintScopes } from './note-hints.ts';

const oneOfScopes: readonly Scope[] = [...new Set(Object.values(hintScopes))];

const api = operationsOf('Statistics', {
  streamEvents: {
    scope: null,
    oneOfScopes,
    summary: 'Follow what changes',
    description:
      'Server-sent events without an end. Each is `{ type, id, at }` and says what to read again: `approval`, `gate`, `passport`, `revocation` ' +
      '(of a passport), `record` (of a gate), `delivery` (of a webhook), `sidecar`, as far as the scopes of the caller read it. `id` is null where ' +
      'several changed. `reset`: events may be missing, read everything again. `closed`: the service ends the stream, with a `reason`. An event may ' +
      'be lost, so read now and then without one.',
    contents: { 'text/event-stream': Type.String() },
    requestHeaders: ['Last-Event-ID'],
  },
});

/** Hints of changes in the caller's account and mode, as server-sent events (contract §9). */
export function eventRoutes(
  deps: Pick<BaseDeps, 'bus' | 'clock' | 'logger' | 'metrics'>,
): FastifyPluginAsync {
  return async (app) => {
    const streams = new EventStreams(deps);
    // Before the wait for requests in flight, because a stream never ends by itself.
    app.addHook('preClose', async () => streams.close());

    app.get('/events', { config: api.streamEvents, exposeHeadRoute: false }, async (request, reply) => {
      const stream = await streams.open({
        caller: callerOf(request),
        again: must(request.callerNow, 'the route asks for one of several scopes'),
        isBack: request.headers['last-event-id'] !== undefined,
      });
      // nginx must not buffer. The connection ends with its stream: kept alive, it would delay a stop of
      // this process until the idle timeout.
      reply.header('x-accel-buffering', 'no').header('connection', 'close');
      return reply.type('text/event-stream; charset=utf-8').send(stream);
    });
  };
}
