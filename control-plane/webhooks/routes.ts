import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import { renderTime, secondMs } from '../../shared/model/time.ts';
import type { Delivery } from '../../shared/model/webhook.ts';
import { ApiKeyRoll } from '../../shared/wire/api/api-key.ts';
import {
  NamedListQuery,
  PageAnswer,
  partsAsked,
  placePage,
  renderPage,
} from '../../shared/wire/api/paging.ts';
import {
  DeliveryAnswer,
  DeliveryQuery,
  NewWebhookAnswer,
  parseRecovery,
  renderDelivery,
  renderWebhook,
  WebhookAnswer,
  WebhookCreation,
  WebhookDeletion,
  WebhookRecovery,
  WebhookRecoveryAnswer,
  WebhookTest,
  WebhookUpdate,
} from '../../shared/wire/api/webhook.ts';
import { creator } from '../creation/idempotency.ts';
import { callerOf } from '../http/caller.ts';
import { operationsOf } from '../http/operation.ts';
import { IdParams, pathId } from '../http/path-id.ts';
import { createWebhook, type WebhookWithSecret } from './create-webhook.ts';
import { deleteWebhook } from './delete-webhook.ts';
import { listDeliveries } from './delivery-store.ts';
import type { WebhookDeps } from './deps.ts';
import { recover, resend, sendTest } from './redeliver.ts';
import { rollSecret } from './roll-secret.ts';
import { sourceOf } from './source-of.ts';
import { updateWebhook } from './update-webhook.ts';
import { webhookOnRecord } from './webhook-on-record.ts';
import { findWebhook, hasWebhookWithUrl, listWebhooks, touchFetched } from './webhook-store.ts';

const api = operationsOf('Webhooks', {
  createWebhook: {
    scope: 'webhooks:manage',
    creates: true,
    summary: 'Subscribe an endpoint to events',
    description:
      'Each event is sent as a POST, signed as Standard Webhooks has it with `secret`, which is shown this once. With `url` null nothing is sent: ' +
      'fetch the deliveries, as `agent-trust webhooks listen` does. See docs/webhooks.md.',
    errors: ['precondition_failed'],
    requestHeaders: ['If-None-Match: *'],
    examples: {
      endpoint: {
        value: {
          url: 'https://hooks.example.com/agent-trust',
          events: ['passport.revoked', 'spend_limit.approaching'],
          description: 'Pages whoever is on call',
        },
      },
      fetched: { summary: 'To be fetched', value: { url: null, events: ['passport.denied'] } },
    },
  },
  listWebhooks: { scope: 'webhooks:manage', summary: 'List webhooks, newest first' },
  getWebhook: { scope: 'webhooks:manage', summary: 'Get a webhook', errors: ['webhook_not_found'] },
  updateWebhook: {
    scope: 'webhooks:manage',
    summary: 'Change a webhook',
    description:
      'Only what is present changes. Pending deliveries of a disabled webhook are sent when it is enabled again.',
    errors: ['webhook_not_found'],
    examples: {
      events: { value: { events: ['passport.revoked'] } },
      disabling: { value: { status: 'disabled' } },
    },
  },
  deleteWebhook: {
    scope: 'webhooks:manage',
    summary: 'Delete a webhook',
    description: 'Its undelivered events are discarded.',
    errors: ['webhook_not_found'],
  },
  rollWebhookSecret: {
    scope: 'webhooks:manage',
    summary: 'Replace the secret of a webhook by a new one',
    description:
      'For `overlap_s` each delivery carries a signature by both; if the answer is lost, roll it again within that time: each earlier secret stays valid until its own end. With 0 only the new one signs, at once. The new `secret` is shown this once.',
    errors: ['webhook_not_found'],
    examples: { overlap: { value: { overlap_s: 86_400 } } },
  },
  testWebhook: {
    scope: 'webhooks:manage',
    summary: 'Send an event with sample data to a webhook',
    description: 'Answers with the delivery before it is attempted; get it again to see the outcome.',
    errors: ['webhook_not_found'],
    examples: { event: { value: { event: 'passport.revoked' } } },
  },
  listDeliveries: {
    scope: 'webhooks:manage',
    summary: 'List what was sent to a webhook, newest first',
    description: 'With the newest 20 attempts of each. Deliveries are kept for 30 days.',
    errors: ['webhook_not_found'],
  },
  resendDelivery: {
    scope: 'webhooks:manage',
    summary: 'Send a delivery again',
    description:
      'Whatever its status, at once, with the same `webhook-id`, and with a retry schedule of its own.',
    errors: ['webhook_not_found', 'delivery_not_found'],
  },
  recoverWebhook: {
    scope: 'webhooks:manage',
    summary: 'Send again what has failed since a time',
    description:
      'All deliveries created since then that have failed, finally or so far; at most 10,000 at a time, the oldest first.',
    errors: ['webhook_not_found'],
    examples: { since: { value: { since: '2026-11-20T00:00:00Z' } } },
  },
});
const webhookIdOf = (text: string) => pathId('wh', text, 'webhook_not_found');
const DeliveryParams = Type.Object({ id: Type.String(), delivery_id: Type.String() });

/** Webhook endpoints of the caller's account and mode, and what was sent to them (contract §14). */
export function webhookRoutes(deps: WebhookDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.register(creationRoutes(deps));
    app.register(endpointRoutes(deps));
    app.register(deliveryRoutes(deps));
  };
}

function creationRoutes(deps: WebhookDeps): FastifyPluginAsyncTypebox {
  const answerCreated = creator(deps);
  return async (app) => {
    app.post(
      '/webhooks',
      { config: api.createWebhook, schema: { body: WebhookCreation, response: { 201: NewWebhookAnswer } } },
      async (request, reply) => {
        const owner = callerOf(request);
        const wanted = request.body;
        return answerCreated(request, reply, {
          named: {
            kind: 'webhook',
            name: wanted.url,
            labels: wanted.labels ?? {},
            isTaken: hasWebhookWithUrl,
          },
          create: (tx) => createWebhook(tx, deps, { owner, wanted }),
          render: renderWithSecret,
          audit: ({ webhook }) => ({
            operation: 'createWebhook',
            target: webhook.webhookId,
            before: null,
            after: webhookOnRecord(webhook),
          }),
        });
      },
    );
  };
}

function endpointRoutes(deps: WebhookDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/webhooks',
      {
        config: api.listWebhooks,
        schema: { querystring: NamedListQuery, response: { 200: PageAnswer(WebhookAnswer) } },
      },
      async (request) => {
        const owner = callerOf(request);
        const page = placePage(request.query, owner, 'webhooks', partsAsked(request.query));
        const namePart = request.query.name ?? null;
        return renderPage(await listWebhooks(deps.sql, owner, { namePart, page }), page, renderWebhook);
      },
    );

    app.get(
      '/webhooks/:id',
      { config: api.getWebhook, schema: { params: IdParams, response: { 200: WebhookAnswer } } },
      async (request) => {
        const webhook = await findWebhook(deps.sql, callerOf(request), webhookIdOf(request.params.id));
        if (webhook === null) throw new ApiError('webhook_not_found');
        return renderWebhook(webhook);
      },
    );

    app.put(
      '/webhooks/:id',
      {
        config: api.updateWebhook,
        schema: { params: IdParams, body: WebhookUpdate, response: { 200: WebhookAnswer } },
      },
      async (request) => {
        const webhookId = webhookIdOf(request.params.id);
        const change = { webhookId, update: request.body };
        return renderWebhook(await updateWebhook(deps, callerOf(request), change));
      },
    );

    app.delete(
      '/webhooks/:id',
      { config: api.deleteWebhook, schema: { params: IdParams, response: { 200: WebhookDeletion } } },
      async (request) => {
        const webhookId = webhookIdOf(request.params.id);
        const deletedAtMs = await deleteWebhook(deps, callerOf(request), webhookId);
        return { webhook_id: webhookId, deleted: true as const, deleted_at: renderTime(deletedAtMs) };
      },
    );

    app.post(
      '/webhooks/:id/roll-secret',
      {
        config: api.rollWebhookSecret,
        schema: { params: IdParams, body: ApiKeyRoll, response: { 200: NewWebhookAnswer } },
      },
      async (request) => {
        const overlapMs = (request.body.overlap_s ?? 0) * secondMs;
        const options = { webhookId: webhookIdOf(request.params.id), overlapMs };
        return renderWithSecret(await rollSecret(deps, callerOf(request), options));
      },
    );
  };
}

function deliveryRoutes(deps: WebhookDeps): FastifyPluginAsyncTypebox {
  const render = (delivery: Delivery) => renderDelivery(delivery, sourceOf(deps));
  return async (app) => {
    app.post(
      '/webhooks/:id/test',
      {
        config: api.testWebhook,
        schema: { params: IdParams, body: WebhookTest, response: { 200: DeliveryAnswer } },
      },
      async (request) => {
        const webhookId = webhookIdOf(request.params.id);
        const event = request.body.event ?? null;
        return render(await sendTest(deps, callerOf(request), { webhookId, event }));
      },
    );

    app.get(
      '/webhooks/:id/deliveries',
      {
        config: api.listDeliveries,
        schema: {
          params: IdParams,
          querystring: DeliveryQuery,
          response: { 200: PageAnswer(DeliveryAnswer) },
        },
      },
      async (request) => {
        const webhookId = webhookIdOf(request.params.id);
        const owner = callerOf(request);
        const webhook = await findWebhook(deps.sql, owner, webhookId);
        if (webhook === null) throw new ApiError('webhook_not_found');
        const { status = null, ...query } = request.query;
        const page = placePage(query, owner, 'deliveries', [webhookId, status]);
        if (webhook.url === null) await touchFetched(deps.sql, webhookId, deps.clock.now());
        const found = await listDeliveries(deps.sql, { webhookId, status, page });
        return renderPage(found, page, render);
      },
    );

    app.post(
      '/webhooks/:id/deliveries/:delivery_id/resend',
      { config: api.resendDelivery, schema: { params: DeliveryParams, response: { 200: DeliveryAnswer } } },
      async (request) => {
        const webhookId = webhookIdOf(request.params.id);
        const deliveryId = pathId('dlv', request.params.delivery_id, 'delivery_not_found');
        return render(await resend(deps, callerOf(request), { webhookId, deliveryId }));
      },
    );

    app.post(
      '/webhooks/:id/recover',
      {
        config: api.recoverWebhook,
        schema: { params: IdParams, body: WebhookRecovery, response: { 200: WebhookRecoveryAnswer } },
      },
      async (request) => {
        const webhookId = webhookIdOf(request.params.id);
        const sinceMs = parseRecovery(request.body);
        const { requeued, hasMore } = await recover(deps, callerOf(request), { webhookId, sinceMs });
        return { requeued, has_more: hasMore };
      },
    );
  };
}

const renderWithSecret = ({ webhook, secret }: WebhookWithSecret) => ({ ...renderWebhook(webhook), secret });
