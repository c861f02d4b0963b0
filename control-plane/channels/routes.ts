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
} from '../../shared/wire/api/channel.ts';
import {
  NamedListQuery,
  PageAnswer,
  partsAsked,
  placePage,
  renderPage,
} from '../../shared/wire/api/paging.ts';
import { creator } from '../creation/idempotency.ts';
import { callerOf } from '../http/caller.ts';
import { readIfMatch } from '../http/entity-tag.ts';
import { exampleIds } from '../http/example-ids.ts';
import { operationsOf } from '../http/operation.ts';
import { IdParams, pathId } from '../http/path-id.ts';
import { channelOnRecord } from './channel-on-record.ts';
import { channelTag, findChannel, listChannels } from './channel-store.ts';
import { createChannel } from './create-channel.ts';
import { deleteChannel } from './delete-channel.ts';
import type { ChannelDeps } from './deps.ts';
import { ChannelTests } from './test-channel.ts';
import { updateChannel } from './update-channel.ts';

const api = operationsOf('Channels', {
  createChannel: {
    scope: 'webhooks:manage',
    creates: true,
    summary: 'Add a channel that tells people of approvals',
    description:
      'It is told of approvals that are opened from now on: at once, or after `after_s` if they still wait then, and where that was sent, of their end. ' +
      'A gate with enabled channels of its own uses these in place of those of the account. The target is stored sealed and never shown again in full. ' +
      'See docs/channels.md.',
    errors: ['gate_not_found', 'channel_name_conflict'],
    examples: {
      slack: {
        summary: 'A channel of Slack, at once',
        value: {
          name: 'payments in Slack',
          kind: 'slack',
          target: 'https://hooks.slack.com/services/T0000/B0000/XXXXXXXX',
        },
      },
      email: {
        summary: 'An e-mail after ten minutes without an answer, for one gate',
        value: {
          name: 'on call',
          kind: 'email',
          target: 'on-call@example.com',
          gate_id: exampleIds.gateId,
          after_s: 600,
          events: ['approval.requested'],
        },
      },
    },
  },
  listChannels: { scope: 'webhooks:manage', summary: 'List channels, newest first' },
  getChannel: {
    scope: 'webhooks:manage',
    summary: 'Get a channel and how its last messages went',
    errors: ['channel_not_found'],
    headers: ['ETag'],
  },
  updateChannel: {
    scope: 'webhooks:manage',
    summary: 'Change a channel',
    description:
      'Only what is present changes. Another target, or enabling, begins anew: what failed before counts no more.',
    errors: ['channel_not_found', 'channel_name_conflict', 'precondition_failed'],
    requestHeaders: ['If-Match'],
    headers: ['ETag'],
    examples: {
      later: { value: { after_s: 300 } },
      disabling: { value: { status: 'disabled' } },
    },
  },
  deleteChannel: {
    scope: 'webhooks:manage',
    summary: 'Delete a channel',
    errors: ['channel_not_found', 'precondition_failed'],
    requestHeaders: ['If-Match'],
  },
  testChannel: {
    scope: 'webhooks:manage',
    summary: 'Send a test message to a channel, now',
    description: 'Once, and the answer says what came of it. A disabled channel can be tested, too.',
    errors: ['channel_not_found'],
  },
});
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
      { config: api.createChannel, schema: { body: ChannelCreation, response: { 201: NewChannelAnswer } } },
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
      {
        config: api.listChannels,
        schema: { querystring: NamedListQuery, response: { 200: PageAnswer(ChannelAnswer) } },
      },
      async (request) => {
        const owner = callerOf(request);
        const page = placePage(request.query, owner, 'channels', partsAsked(request.query));
        const namePart = request.query.name ?? null;
        return renderPage(await listChannels(deps.sql, owner, { namePart, page }), page, renderChannel);
      },
    );

    app.get(
      '/channels/:id',
      { config: api.getChannel, schema: { params: IdParams, response: { 200: ChannelAnswer } } },
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
      {
        config: api.updateChannel,
        schema: { params: IdParams, body: ChannelUpdate, response: { 200: ChannelAnswer } },
      },
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
      { config: api.deleteChannel, schema: { params: IdParams, response: { 200: ChannelDeletion } } },
      async (request) => {
        const channelId = channelIdOf(request.params.id);
        const ifMatch = readIfMatch(request.headers['if-match']);
        const deletedAtMs = await deleteChannel(deps, callerOf(request), { channelId, ifMatch });
        return { channel_id: channelId, deleted: true as const, deleted_at: renderTime(deletedAtMs) };
      },
    );

    app.post(
      '/channels/:id/test',
      { config: api.testChannel, schema: { params: IdParams, response: { 200: ChannelTestAnswer } } },
      async (request) => {
        const channelId = channelIdOf(request.params.id);
        const { error, latencyMs } = await tests.run(deps, callerOf(request), channelId);
        return { channel_id: channelId, sent: error === null, latency_ms: latencyMs, error };
      },
    );
  };
}
