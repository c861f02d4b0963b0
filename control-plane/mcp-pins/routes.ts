import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyRequest } from 'fastify';
import { ApiError } from '../../shared/errors/api-error.ts';
import { limits } from '../../shared/model/limits.ts';
import {
  McpPinAnswer,
  McpPinListItem,
  McpPinListQuery,
  McpPinResolution,
  McpToolReport,
  McpToolReportAnswer,
  renderMcpPin,
  renderMcpPinItem,
} from '../../shared/wire/mcp-pin.ts';
import { PageAnswer, placePage, renderPage } from '../../shared/wire/paging.ts';
import { callerOf } from '../http/caller.ts';
import { IdParams, pathId } from '../http/path-id.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { findPin, listPins } from './pin-store.ts';
import { reportTools } from './report-tools.ts';
import { resolvePin } from './resolve-pin.ts';

const read = { scope: 'gates:read' } as const;
const update = { scope: 'gates:update' } as const;
const check = { scope: 'enforcement:check' } as const;
const resolution = { params: IdParams, body: McpPinResolution, response: { 200: McpPinAnswer } };
const pinIdOf = (text: string) => pathId('mpin', text, 'mcp_pin_not_found');

/** Tools of MCP servers behind the caller's gates (contract §16). */
export function mcpPinRoutes(deps: SigningDeps): FastifyPluginAsyncTypebox {
  const answerResolved = async (
    request: FastifyRequest,
    {
      id,
      hash,
      answer,
    }: { readonly id: string; readonly hash: string; readonly answer: 'accept' | 'reject' },
  ) => {
    const pin = await resolvePin(deps, callerOf(request), { pinId: pinIdOf(id), hash, answer });
    return renderMcpPin(pin, deps.baseUrl);
  };
  return async (app) => {
    app.get(
      '/mcp-pins',
      {
        config: read,
        schema: { querystring: McpPinListQuery, response: { 200: PageAnswer(McpPinListItem) } },
      },
      async (request) => {
        const { gate_id: gateId = null, status = null } = request.query;
        const caller = callerOf(request);
        const page = placePage(request.query, caller, 'mcp-pins', [gateId, status]);
        const found = await listPins(deps.sql, caller, { gateId, status, page });
        return renderPage(found, page, (pin) => renderMcpPinItem(pin, deps.baseUrl));
      },
    );

    app.get(
      '/mcp-pins/:id',
      { config: read, schema: { params: IdParams, response: { 200: McpPinAnswer } } },
      async (request) => {
        const pin = await findPin(deps.sql, callerOf(request), pinIdOf(request.params.id));
        if (pin === null) throw new ApiError('mcp_pin_not_found');
        return renderMcpPin(pin, deps.baseUrl);
      },
    );

    app.post(
      '/mcp-pins',
      {
        config: check,
        bodyLimit: 2 * limits.mcpReportBytesMax,
        schema: { body: McpToolReport, response: { 200: McpToolReportAnswer } },
      },
      async (request) =>
        reportTools(
          deps,
          callerOf(request),
          pathId('gate', request.body.gate_id, 'gate_not_found'),
          request.body,
        ),
    );

    app.post('/mcp-pins/:id/accept', { config: update, schema: resolution }, async (request) =>
      answerResolved(request, { id: request.params.id, hash: request.body.hash, answer: 'accept' }),
    );

    app.post('/mcp-pins/:id/reject', { config: update, schema: resolution }, async (request) =>
      answerResolved(request, { id: request.params.id, hash: request.body.hash, answer: 'reject' }),
    );
  };
}
