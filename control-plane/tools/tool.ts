/**
 * Room `control-plane/tools`: the JSON-RPC tools at `/mcp`: the same use cases as the routes, listed in
 * `tool-list.ts`, served by `tool-server.ts`.
 */

import type { Static, TObject } from 'typebox';
import type { Scope } from '../../shared/model/scopes.ts';
import { bodyReader } from '../../shared/wire/api/body.ts';
import type { Caller } from '../http/caller.ts';
import { refuseNul } from '../http/validation.ts';
import type { ToolDeps } from './deps.ts';

/** Hints about a tool, so that a client can ask a person first (contract §13). They are no protection. */
interface ToolHints {
  readonly readOnlyHint: boolean;
  /** What it does cannot be undone. */
  readonly destructiveHint?: boolean;
  readonly idempotentHint?: boolean;
}

interface ToolWords {
  readonly name: string;
  readonly title: string;
  /** For a model: what it does, and when to use it. */
  readonly description: string;
  readonly hints: ToolHints;
  /**
   * Whether its answer may contain text of other accounts, which is then marked as untrusted data (contract
   * §13).
   */
  readonly holdsForeignText?: boolean;
  /** What the access token must hold. Null: nothing. */
  readonly scope: Scope | null;
}

/**
 * A tool of `/mcp`: one call of the public API under a name, with its arguments and its structured result as
 * schemas.
 */
export interface Tool extends ToolWords {
  readonly input: TObject;
  readonly output: TObject;
  /** `args` as they came. Throws ApiError: for what is wrong with them, and for whatever the call refuses. */
  readonly call: (deps: ToolDeps, caller: Caller, args: unknown) => Promise<object>;
}

/**
 * Arguments are read by the schema that is published, as bodies are: unknown ones are refused by name, never
 * ignored.
 */
export function defineTool<Input extends TObject>(
  tool: ToolWords & {
    readonly input: Input;
    readonly output: TObject;
    readonly run: (deps: ToolDeps, caller: Caller, args: Static<Input>) => Promise<object>;
  },
): Tool {
  const read = bodyReader(tool.input);
  const { run, ...words } = tool;
  const call: Tool['call'] = async (deps, caller, args) => {
    const input = read(args);
    refuseNul(input, '');
    return run(deps, caller, input);
  };
  return { ...words, call };
}
