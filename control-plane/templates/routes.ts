import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import {
  NamedListQuery,
  PageAnswer,
  partsAsked,
  placePage,
  renderPage,
} from '../../shared/wire/api/paging.ts';
import {
  parseTemplateCreation,
  renderTemplate,
  TemplateAnswer,
  TemplateCreation,
} from '../../shared/wire/api/template.ts';
import { creator } from '../creation/idempotency.ts';
import { callerOf } from '../http/caller.ts';
import { operationsOf } from '../http/operation.ts';
import { IdParams } from '../http/path-id.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { createTemplate } from './create-template.ts';
import { findTemplate, listTemplates } from './template-of.ts';
import { hasTemplateNamed } from './template-store.ts';

const api = operationsOf('Templates', {
  createTemplate: {
    scope: 'templates:create',
    creates: true,
    summary: 'Create a template',
    errors: ['precondition_failed'],
    requestHeaders: ['If-None-Match: *'],
    examples: {
      template: {
        value: {
          name: 'Small purchases',
          trust_level: 'L2',
          constraints: { spend_limits: { per_transaction_usd: 10 } },
        },
      },
    },
  },
  listTemplates: { scope: 'templates:read', summary: 'List templates, own and built-in' },
  getTemplate: { scope: 'templates:read', summary: 'Get a template', errors: ['template_not_found'] },
});

/** Templates of gates (contract §4): built-in ones, and those of the caller's account and mode. */
export function templateRoutes(deps: SigningDeps): FastifyPluginAsyncTypebox {
  const answerCreated = creator(deps);
  return async (app) => {
    app.post(
      '/templates',
      { config: api.createTemplate, schema: { body: TemplateCreation, response: { 201: TemplateAnswer } } },
      async (request, reply) => {
        const wanted = parseTemplateCreation(request.body);
        return answerCreated(request, reply, {
          named: { kind: 'template', name: wanted.name, isTaken: hasTemplateNamed },
          create: (tx) => createTemplate(tx, deps, callerOf(request), wanted),
          render: renderTemplate,
          audit: (template) => ({
            operation: 'createTemplate',
            target: template.templateId,
            before: null,
            after: renderTemplate(template),
          }),
        });
      },
    );

    app.get(
      '/templates',
      {
        config: api.listTemplates,
        schema: { querystring: NamedListQuery, response: { 200: PageAnswer(TemplateAnswer) } },
      },
      async (request) => {
        const owner = callerOf(request);
        const page = placePage(request.query, owner, 'templates', partsAsked(request.query));
        const found = await listTemplates(deps.sql, owner, {
          namePart: request.query.name ?? null,
          page,
          toItem: renderTemplate,
          logger: deps.logger,
        });
        return renderPage(found, page, (item) => item);
      },
    );

    app.get(
      '/templates/:id',
      { config: api.getTemplate, schema: { params: IdParams, response: { 200: TemplateAnswer } } },
      async (request) => {
        const template = await findTemplate(deps.sql, callerOf(request), request.params.id);
        if (template === null) throw new ApiError('template_not_found');
        return renderTemplate(template);
      },
    );
  };
}
