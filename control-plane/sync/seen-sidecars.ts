import { secondMs } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Position } from '../../shared/wire/sync/sync.ts';
import type { Database } from '../base/database.ts';
import { type Connection, noteAllSeen, noteSidecar, type SaidOfItself } from './sidecar-store.ts';

/** A sidecar that called here. */
interface Seen {
  readonly connection: Connection;
  readonly position: string;
  readonly said: SaidOfItself;
  readonly atMs: number;
  readonly isWritten: boolean;
}

/** One that is silent for so long begins anew here, which costs a statement. */
const keptMs = 10 * secondMs;

/**
 * That sidecars are alive, written once a second for all of them together. A new connection or position is
 * written at once, because revocations wait for it.
 */
class SeenSidecars {
  readonly #deps: { readonly sql: Database; readonly clock: Pick<Clock, 'monotonic'> };
  readonly #seen = new Map<string, Seen>();
  /** Somebody calls `write`; until then everything is written at once. */
  isKept = false;

  constructor(deps: { readonly sql: Database; readonly clock: Pick<Clock, 'monotonic'> }) {
    this.#deps = deps;
  }

  /** As `noteSidecar`. `news`: called where others may wait for what was written. */
  async note(
    connection: Connection,
    applied: Position,
    { said = {}, news }: { readonly said?: SaidOfItself; readonly news: () => void },
  ): Promise<boolean> {
    const { sidecarId } = connection;
    const position = JSON.stringify([connection, applied]);
    const known = this.#seen.get(sidecarId);
    const now = { connection, position, said, atMs: this.#deps.clock.monotonic() };
    if (this.isKept && known?.position === position) {
      this.#seen.set(sidecarId, { ...now, isWritten: false });
      return true;
    }
    this.#seen.delete(sidecarId);
    if (!(await noteSidecar(this.#deps.sql, connection, applied, said))) return false;
    this.#seen.set(sidecarId, { ...now, isWritten: true });
    news();
    return true;
  }

  /** Its next call is written at once. */
  forget(sidecarId: string): void {
    this.#seen.delete(sidecarId);
  }

  /** Throws what the database throws; then it waits. */
  async write(): Promise<void> {
    const nowMs = this.#deps.clock.monotonic();
    const waiting = [...this.#seen.values()].filter(({ isWritten }) => !isWritten);
    const written = await noteAllSeen(
      this.#deps.sql,
      waiting.map(({ connection, said, atMs }) => ({ ...connection, ...said, agoMs: nowMs - atMs })),
    );
    for (const [sidecarId, seen] of this.#seen) {
      if (nowMs - seen.atMs > keptMs) this.#seen.delete(sidecarId);
      // Others have called again meanwhile.
      if (!waiting.includes(seen)) continue;
      if (written.has(sidecarId)) this.#seen.set(sidecarId, { ...seen, isWritten: true });
      else this.#seen.delete(sidecarId);
    }
  }
}

const seenSidecars = new WeakMap<Database, SeenSidecars>();

/** Those of this pool. */
export function seenSidecarsOf(deps: { readonly sql: Database; readonly clock: Clock }): SeenSidecars {
  const known = seenSidecars.get(deps.sql) ?? new SeenSidecars(deps);
  seenSidecars.set(deps.sql, known);
  return known;
}
