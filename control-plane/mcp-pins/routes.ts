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
} from '../../shared/wire/api/mcp-pin.ts';
import { PageAnswer, placePage, renderPage } from '../../shared/wire/api/paging.ts';
import { callerOf } from '../http/caller.ts';
import { exampleIds } from '../http/example-ids.ts';
import { operationsOf } from '../http/operation.ts';
import { IdParams, pathId } from '../http/path-id.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { findPin, listPins } from './pin-store.ts';
import { reportTools } from './report-tools.ts';
import { resolvePin } from './resolve-pin.ts';

const api = operationsOf('MCP pins', {
  listMcpPins: {
    scope: 'gates:read',
    summary: 'List pinned tools of MCP servers, newest first',
    description: 'With `gate_id` those behind this gate, with `status` those that have this status now.',
  },
  getMcpPin: {
    scope: 'gates:read',
    summary: 'Get a pinned tool, with what has changed',
    errors: ['mcp_pin_not_found'],
  },
  reportMcpTools: {
    scope: 'enforcement:check',
    summary: 'Report tools of an MCP server',
    description:
      'For guards before MCP servers. A tool is pinned as it is first seen; once a list was whole, whatever is not as it was ' +
      'pinned waits for a person. A report that changes nothing writes nothing.',
    errors: ['gate_not_found', 'mcp_pins_full'],
    examples: {
      first: {
        value: {
          gate_id: 'gate_01m7w739pyh5af5epc0s64v3bj',
          upstream: 'http://127.0.0.1:3000/mcp',
          tools: [{ definition: '{"inputSchema":{"type":"object"},"name":"search"}' }],
          is_whole: true,
        },
      },
    },
  },
  acceptMcpPin: {
    scope: 'gates:update',
    summary: 'Accept a change of a tool',
    description: 'Guards let calls of the tool pass again within seconds.',
    errors: ['mcp_pin_not_found', 'mcp_pin_state_conflict'],
    examples: { change: { value: { hash: exampleIds.newToolHash } } },
  },
  rejectMcpPin: {
    scope: 'gates:update',
    summary: 'Reject a change of a tool',
    description: 'What was accepted before stays in force. The same change does not ask again.',
    errors: ['mcp_pin_not_found', 'mcp_pin_state_conflict'],
    examples: { change: { value: { hash: exampleIds.newToolHash } } },
  },
});
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
        config: api.listMcpPins,
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
      { config: api.getMcpPin, schema: { params: IdParams, response: { 200: McpPinAnswer } } },
      async (request) => {
        const pin = await findPin(deps.sql, callerOf(request), pinIdOf(request.params.id));
        if (pin === null) throw new ApiError('mcp_pin_not_found');
        return renderMcpPin(pin, deps.baseUrl);
      },
    );

    app.post(
      '/mcp-pins',
      {
        config: api.reportMcpTools,
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

    app.post('/mcp-pins/:id/accept', { config: api.acceptMcpPin, schema: resolution }, async (request) =>
      answerResolved(request, { id: request.params.id, hash: request.body.hash, answer: 'accept' }),
    );

    app.post('/mcp-pins/:id/reject', { config: api.rejectMcpPin, schema: resolution }, async (request) =>
      answerResolved(request, { id: request.params.id, hash: request.body.hash, answer: 'reject' }),
    );
  };
}
