import type { AccountId, GateId, McpPinId } from './ids.ts';
import type { Mode } from './mode.ts';
import type { UnixMillis } from './time.ts';

/**
 * `pinned`: the tool is as it was first seen or accepted. `changed`: it is not, and a person has not answered
 * yet. `rejected`: a person has refused the change; what was accepted before stays in force.
 */
export const mcpPinStatuses = ['pinned', 'changed', 'rejected'] as const;
export type McpPinStatus = (typeof mcpPinStatuses)[number];

/**
 * `changed`: the tool has another definition. `added`: it was not in the first list. `renamed`: added, and
 * but for its name it equals `resembles`. `look_alike`: added, and a person takes its name for `resembles`.
 * `readded`: it was gone in between.
 */
export const mcpChanges = ['changed', 'added', 'renamed', 'look_alike', 'readded'] as const;
export type McpChange = (typeof mcpChanges)[number];

/** A tool of an MCP server behind a gate (contract §16). */
export interface McpPin {
  readonly pinId: McpPinId;
  readonly accountId: AccountId;
  readonly mode: Mode;
  readonly gateId: GateId;
  /** As guards name it: an address without its query, or a program. */
  readonly upstream: string;
  readonly tool: string;
  readonly status: McpPinStatus;
  /** In force, in the form of RFC 8785, with its SHA-256. Null: none was accepted. */
  readonly definition: string | null;
  readonly hash: string | null;
  /** Waits for an answer, or was rejected. Null while `pinned`. */
  readonly newDefinition: string | null;
  readonly newHash: string | null;
  readonly change: McpChange | null;
  readonly resembles: string | null;
  readonly firstSeenAtMs: UnixMillis;
  readonly changedAtMs: UnixMillis | null;
  readonly resolvedAtMs: UnixMillis | null;
  /** The key or person that answered last. */
  readonly resolvedBy: string | null;
}
