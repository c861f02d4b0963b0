import type { Scope } from '../../shared/model/scopes.ts';
import type { Caller } from './caller.ts';

/**
 * One operation of the API, offered by an HTTP route, by a tool of `/mcp`, or by both, so that it is
 * implemented once and requires the same scope everywhere. Input and answer are those of the public API; the
 * input has the shape that the route or the tool declares. `Deps`: its dependencies.
 */
export interface UseCase<Deps, Input, Answer> {
  /** The scope that the caller's key or token must have; the route or the tool enforces it. Null: none. */
  readonly scope: Scope | null;
  readonly run: (deps: Deps, caller: Caller, input: Input) => Promise<Answer>;
}
