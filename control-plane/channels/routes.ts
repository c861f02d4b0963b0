import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import { renderTime } from '../../shared/model/time.ts';
import {
  ChannelAnswer,
  ChannelCreation,
  ChannelDeletion,
  ChannelTestAnswer,
  ChannelUpdate,
  NewChannelAnswer,
  renderChannel,
} from '../../shared/wire/channel.ts';
import { NamedListQuery, PageAnswer, partsAsked, placePage, renderPage } from '../../shared/wire/paging.ts';
import { creator } from '../creation/idempotency.ts';
import { callerOf } from '../http/caller.ts';
import { readIfMatch } from '../http/entity-tag.ts';
import { IdParams, pathId } from '../http/path-id.ts';
import { channelOnRecord } from './channel-on-record.ts';
import { channelTag, findChannel, listChannels } from './channel-store.ts';
import { createChannel } from './create-channel.ts';
import { deleteChannel } from './delete-channel.ts';
import type { ChannelDeps } from './deps.ts';
import { ChannelTests } from './test-channel.ts';
import { updateChannel } from './update-channel.ts';

// Who may send the events of an account to an address may send its approvals to one.
const config = { scope: 'webhooks:manage' } as const;
const create = { ...config, creates: true } as const;
const channelIdOf = (text: string) => pathId('chan', text, 'channel_not_found');

/** Channels of the caller's account and mode (contract §8). */
export function channelRoutes(deps: ChannelDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.register(creationRoutes(deps));
    app.register(readRoutes(deps));
    app.register(changeRoutes(deps));
  };
}

function creationRoutes(deps: ChannelDeps): FastifyPluginAsyncTypebox {
  const answerCreated = creator(deps);
  return async (app) => {
    app.post(
      '/channels',
      { config: create, schema: { body: ChannelCreation, response: { 201: NewChannelAnswer } } },
      async (request, reply) => {
        const owner = callerOf(request);
        const wanted = request.body;
        return answerCreated(request, reply, {
          create: (tx) => createChannel(tx, deps, { owner, wanted }),
          render: ({ channel, secret }) => ({
            ...renderChannel(channel),
            ...(secret === null ? {} : { secret }),
          }),
          audit: ({ channel }) => ({
            operation: 'createChannel',
            target: channel.channelId,
            before: null,
            after: channelOnRecord(channel),
          }),
        });
      },
    );
  };
}

function readRoutes(deps: ChannelDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/channels',
      { config, schema: { querystring: NamedListQuery, response: { 200: PageAnswer(ChannelAnswer) } } },
      async (request) => {
        const owner = callerOf(request);
        const page = placePage(request.query, owner, 'channels', partsAsked(request.query));
        const namePart = request.query.name ?? null;
        return renderPage(await listChannels(deps.sql, owner, { namePart, page }), page, renderChannel);
      },
    );

    app.get(
      '/channels/:id',
      { config, schema: { params: IdParams, response: { 200: ChannelAnswer } } },
      async (request, reply) => {
        const channel = await findChannel(deps.sql, callerOf(request), channelIdOf(request.params.id));
        if (channel === null) throw new ApiError('channel_not_found');
        reply.header('etag', channelTag(channel));
        return renderChannel(channel);
      },
    );
  };
}

function changeRoutes(deps: ChannelDeps): FastifyPluginAsyncTypebox {
  const tests = new ChannelTests();
  return async (app) => {
    app.patch(
      '/channels/:id',
      { config, schema: { params: IdParams, body: ChannelUpdate, response: { 200: ChannelAnswer } } },
      async (request, reply) => {
        const channel = await updateChannel(deps, callerOf(request), {
          channelId: channelIdOf(request.params.id),
          update: request.body,
          ifMatch: readIfMatch(request.headers['if-match']),
        });
        reply.header('etag', channelTag(channel));
        return renderChannel(channel);
      },
    );

    app.delete(
      '/channels/:id',
      { config, schema: { params: IdParams, response: { 200: ChannelDeletion } } },
      async (request) => {
        const channelId = channelIdOf(request.params.id);
        const ifMatch = readIfMatch(request.headers['if-match']);
        const deletedAtMs = await deleteChannel(deps, callerOf(request), { channelId, ifMatch });
        return { channel_id: channelId, deleted: true as const, deleted_at: renderTime(deletedAtMs) };
      },
    );

    app.post(
      '/channels/:id/test',
      { config, schema: { params: IdParams, response: { 200: ChannelTestAnswer } } },
      async (request) => {
        const channelId = channelIdOf(request.params.id);
        const { error, latencyMs } = await tests.run(deps, callerOf(request), channelId);
        return { channel_id: channelId, sent: error === null, latency_ms: latencyMs, error };
      },
    );
  };
}
