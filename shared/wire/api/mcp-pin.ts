import { type Static, Type } from 'typebox';
import { piiModes, piiTypes } from '../../model/constraints.ts';
import { limits } from '../../model/limits.ts';
import { type McpPin, mcpChanges, mcpPinStatuses } from '../../model/mcp-pin.ts';
import { renderOptionalTime, renderTime } from '../../model/time.ts';
import { consoleUrl } from './console-url.ts';
import { closed, nullable, plainText, Timestamp } from './fields.ts';
import { differencesOf } from './mcp-difference.ts';
import { pagingQuery } from './paging.ts';

const Status = Type.Enum(mcpPinStatuses);
const Upstream = plainText({ minLength: 1, maxLength: limits.mcpUpstreamCharsMax });
const Hash = Type.String({ pattern: '^sha256:[0-9a-f]{64}$' });

/** `GET /mcp-pins` */
export const McpPinListQuery = Type.Object({
  gate_id: Type.Optional(Type.String()),
  status: Type.Optional(Status),
  ...pagingQuery,
});

/** `POST /mcp-pins`: tools of a server, as a guard sees them. None: what is known already. */
export const McpToolReport = closed({
  gate_id: Type.String(),
  upstream: Upstream,
  tools: Type.Array(
    closed({
      /** In the form of RFC 8785, as text: its hash is that of these bytes. */
      definition: Type.String({ maxLength: limits.mcpToolBytesMax }),
      /** It was in a list, then in none, and is back. */
      readded: Type.Optional(Type.Boolean()),
    }),
    { maxItems: limits.mcpReportToolsMax },
  ),
  /** With these tools the list is whole: new ones wait for a person from now on. */
  is_whole: Type.Optional(Type.Boolean()),
  /** That the guard knows: without a change since, the pins are left out of the answer. */
  revision: Type.Optional(nullable(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }))),
});
export type McpToolReport = Static<typeof McpToolReport>;

/** A pin for a guard. */
export const McpGuardPinAnswer = Type.Object({
  pin_id: Type.String(),
  /** As in McpPinAnswer. */
  pin_url: Type.String(),
  tool: Type.String(),
  status: Status,
  /** In force. Null: none was accepted. */
  hash: nullable(Type.String()),
  /** Waits for an answer, or was rejected. */
  new_hash: nullable(Type.String()),
  change: nullable(Type.Enum(mcpChanges)),
  changed_at: nullable(Timestamp),
  resolved_at: nullable(Timestamp),
});
export type McpGuardPinAnswer = Static<typeof McpGuardPinAnswer>;

export const McpToolReportAnswer = Type.Object({
  revision: Type.Integer(),
  /** Null: those of `revision` are known. */
  pins: nullable(Type.Array(McpGuardPinAnswer)),
  /** Of the gate: answers of the server are searched as requests are. */
  pii_controls: nullable(Type.Object({ mode: Type.Enum(piiModes), types: Type.Array(Type.Enum(piiTypes)) })),
});
export type McpToolReportAnswer = Static<typeof McpToolReportAnswer>;

/** `POST /mcp-pins/:id/accept` and `/reject` */
export const McpPinResolution = closed({
  /** `new_hash` of the pin that was looked at. */
  hash: Hash,
});

const pinShape = {
  pin_id: Type.String(),
  /** The page of the console that shows the difference. */
  pin_url: Type.String(),
  gate_id: Type.String(),
  upstream: Type.String(),
  tool: Type.String(),
  status: Status,
  change: nullable(Type.Enum(mcpChanges)),
  resembles: nullable(Type.String()),
  hash: nullable(Type.String()),
  new_hash: nullable(Type.String()),
  first_seen_at: Timestamp,
  changed_at: nullable(Timestamp),
  resolved_at: nullable(Timestamp),
  resolved_by: nullable(Type.String()),
};

export const McpPinListItem = Type.Object(pinShape);
export type McpPinListItem = Static<typeof McpPinListItem>;

export const McpPinAnswer = Type.Object({
  ...pinShape,
  /** In force, in the form of RFC 8785. */
  definition: nullable(Type.String()),
  new_definition: nullable(Type.String()),
  /** Where the two differ, at most 200 places. */
  differences: Type.Array(
    Type.Object({
      pointer: Type.String(),
      before: nullable(Type.String()),
      after: nullable(Type.String()),
    }),
  ),
});
export type McpPinAnswer = Static<typeof McpPinAnswer>;

/** Also the data of the event `mcp_pin.changed`. `baseUrl`: `{PUBLIC_URL}/v1`; the console is beside it. */
export const renderMcpPinItem = (pin: McpPin, baseUrl: string): McpPinListItem => ({
  pin_id: pin.pinId,
  pin_url: pinUrl(pin, baseUrl),
  gate_id: pin.gateId,
  upstream: pin.upstream,
  tool: pin.tool,
  status: pin.status,
  change: pin.change,
  resembles: pin.resembles,
  hash: pin.hash,
  new_hash: pin.newHash,
  first_seen_at: renderTime(pin.firstSeenAtMs),
  changed_at: renderOptionalTime(pin.changedAtMs),
  resolved_at: renderOptionalTime(pin.resolvedAtMs),
  resolved_by: pin.resolvedBy,
});

export const renderMcpPin = (pin: McpPin, baseUrl: string): McpPinAnswer => ({
  ...renderMcpPinItem(pin, baseUrl),
  definition: pin.definition,
  new_definition: pin.newDefinition,
  differences: pin.newDefinition === null ? [] : differencesOf(pin.definition, pin.newDefinition),
});

const pinUrl = ({ pinId }: McpPin, baseUrl: string): string => consoleUrl(baseUrl, `mcp-pins/${pinId}`);

export const renderGuardPin = (pin: McpPin, baseUrl: string): McpGuardPinAnswer => ({
  pin_id: pin.pinId,
  pin_url: pinUrl(pin, baseUrl),
  tool: pin.tool,
  status: pin.status,
  hash: pin.hash,
  new_hash: pin.newHash,
  change: pin.change,
  changed_at: renderOptionalTime(pin.changedAtMs),
  resolved_at: renderOptionalTime(pin.resolvedAtMs),
});
