import type { Scope } from '../../shared/model/scopes.ts';
import type { Caller } from './caller.ts';

/**
 * One thing that a caller can have done, whichever way it asks: the HTTP routes and the tools of `/mcp` offer
 * the same calls, so that none of them is implemented twice and none of them needs another scope here than
 * there. Input and answer are those of the public API; the input has the shape that the route or the tool
 * declares. `Deps`: what the call needs from outside.
 */
export interface Call<Deps, Input, Answer> {
  /** What the caller's key or token has to hold; whoever offers the call sees to it. Null: nothing. */
  readonly scope: Scope | null;
  readonly run: (deps: Deps, caller: Caller, input: Input) => Promise<Answer>;
}
