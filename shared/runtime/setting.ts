import type { Read } from './setting-values.ts';

/**
 * The readers of a setting. `start` runs both programs in one process; `command`: commands on a running
 * service, such as `healthcheck` and `webhooks`; `mcp-proxy` is a command that keeps running.
 */
export type Program = 'control-plane' | 'sidecar' | 'command' | 'mcp-proxy';
export const bothPrograms = ['control-plane', 'sidecar'] as const;

export interface Setting<T, Default extends string | null> {
  readonly of: readonly Program[];
  /** The value if the variable is unset or empty; null: none. */
  readonly default: Default;
  /** Describes a default that is computed elsewhere. */
  readonly defaultDoc?: string;
  readonly unit?: string;
  /** Its value is never shown. */
  readonly isSecret?: true;
  readonly doc: string;
  readonly read: Read<T>;
}

export const setting = <T, Default extends string | null>(row: Setting<T, Default>): Setting<T, Default> =>
  row;

type ValueOf<Row> =
  Row extends Setting<infer T, infer Default> ? (null extends Default ? T | null : T) : never;
export type ValuesOf<Rows> = { readonly [Name in keyof Rows]: ValueOf<Rows[Name]> };
