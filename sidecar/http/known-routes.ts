import { isId } from '../../shared/model/ids.ts';
import { httpLimits } from './limits.ts';
import { type Route, routeOf } from './routes.ts';
import type { RequestHead } from './server.ts';

/**
 * The addresses of checks and batches that came before. Answers and throws what `routeOf` does, its plain
 * version.
 *
 * Besides taking a path apart once, it makes the id of the gate a text of its own. V8 compares what was cut
 * out of another text in a slower way, and the gate is looked up twice for each check, also of a batch:
 * reading the address and two look-ups take half of the time with this (bench row `micro`).
 */
export class KnownRoutes {
  #byPath = new Map<string, Route>();

  get size(): number {
    return this.#byPath.size;
  }

  of(head: Pick<RequestHead, 'method' | 'path'>): Route {
    const { method, path } = head;
    if (method !== 'POST') return routeOf(head);
    const known = this.#byPath.get(path);
    if (known !== undefined) return known;
    const route = routeOf(head);
    const isOfGate = route.kind === 'check' || route.kind === 'check_batch';
    // Whatever is no id names no gate, and would only take room.
    if (isOfGate && isId('gate', route.gateId)) this.#remember(path, route);
    return route;
  }

  #remember(path: string, { kind, gateId }: Extract<Route, { kind: 'check' | 'check_batch' }>): void {
    // Not cleared: each table that a Map leaves behind refers to the next one (passing-map.ts).
    if (this.#byPath.size >= httpLimits.knownRoutesMax) this.#byPath = new Map();
    this.#byPath.set(path, { kind, gateId: Buffer.from(gateId).toString('latin1') });
  }
}
