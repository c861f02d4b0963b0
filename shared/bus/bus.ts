/**
 * Room `shared/bus`: push between programs. The port is here; its adapters are `in-process.ts` and
 * `redis.ts`.
 */

/**
 * Push between the control plane and the sidecars. It only makes things fast: whoever listens must be right
 * without it (ARCHITECTURE.md, "The change feed").
 *
 * Contract, for every adapter:
 * - At most once. A message may be lost, also without anybody noticing; order within a channel is the order
 *   of publishing.
 * - `publish` never throws and never waits for a listener. What could not be handed over is counted in `lost`
 *   and forgotten.
 * - A listener that throws does not harm the publisher or the other listeners; it is reported to the logger.
 * - `onInterrupted` fires after each time in which messages may have been lost (a reconnect): the listener
 *   pulls.
 */
export interface Bus {
  publish(channel: string, message: string): void;
  /**
   * Starts listening; resolves once messages published from now on arrive. Without a connection it does not
   * wait for one longer than half a second: it then takes effect with the reconnect, which fires
   * `onInterrupted`. The result stops the listening.
   */
  subscribe(channel: string, listener: (message: string) => void): Promise<() => Promise<void>>;
  onInterrupted(listener: () => void): () => void;
  /** Whether messages seem to be flowing. */
  readonly isConnected: boolean;
  /** Messages that are known not to have been handed over, since the start. */
  readonly lost: number;
  /** Stops everything; nothing is delivered afterwards. */
  close(): Promise<void>;
}
