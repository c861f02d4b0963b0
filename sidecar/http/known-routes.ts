import { isId } from '../../shared/model/ids.ts';
import { httpLimits } from './limits.ts';
import { type Route, routeOf } from './routes.ts';
import type { RequestHead } from './server.ts';

/**
 * The addresses of checks and batches that came before. Answers and throws what `routeOf` does, its plain
 * version.
 *
 * Besides taking a path apart once, it makes the id of the gate a text of its own. V8 compares what was cut
 * out of another text in a slower way, and the gate is looked up twice for each check, also of a batch: an
 * address and two look-ups of one gate among fifty take 0.54 of the time with this (bench row `micro`:
 * KnownRoutes).
 */
export class KnownRoutes {
  #byPath = new Map<string, Route>();
  /** Addresses that found no room, since it was last empty. */
  #missed = 0;

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
    if (isOfGate && isId('gate', route.gateId) && this.#hasRoom()) this.#remember(path, route);
    return route;
  }

  /**
   * A full map is replaced seldom, because adding an address takes four times as long as parsing one. With
   * more gates than entries, or invented ids, a plain LRU would never hit.
   */
  #hasRoom(): boolean {
    if (this.#byPath.size < httpLimits.knownRoutesMax) return true;
    this.#missed += 1;
    if (this.#missed < httpLimits.missedRoutesMax) return false;
    this.#missed = 0;
    // Not cleared: each table that a Map leaves behind refers to the next one (passing-map.ts).
    this.#byPath = new Map();
    return true;
  }

  #remember(path: string, { kind, gateId }: Extract<Route, { kind: 'check' | 'check_batch' }>): void {
    this.#byPath.set(ownText(path), { kind, gateId: ownText(gateId) });
  }
}

/**
 * The same ASCII text, cut out of no other: V8 keeps all of the text that a part was cut out of, and
 * `node:http` cuts the path out of a target with up to 16 KiB of query. The path of an id is ASCII.
 */
const ownText = (text: string): string => Buffer.from(text, 'latin1').toString('latin1');
