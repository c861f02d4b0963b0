/**
 * Room `shared/bus`: push between programs. The port is here, with the adapters `in-process.ts` and
 * `redis.ts`.
 */

/**
 * Push between the control plane and the sidecars. It only adds speed: listeners must be correct without it
 * (ARCHITECTURE.md, "The change feed").
 *
 * Contract, for every adapter:
 * - At most once. A message may be lost unnoticed. Order within a channel is the order of publishing.
 * - `publish` never throws and never waits for a listener. Messages that could not be sent are counted in
 *   `lost` and dropped.
 * - A listener that throws affects neither the publisher nor other listeners; the error is logged.
 * - `onInterrupted` fires after each interruption in which messages may have been lost (a reconnect): the
 *   listener pulls.
 */
export interface Bus {
  publish(channel: string, message: string): void;
  /**
   * Starts listening; resolves once messages published from now on arrive. Waits at most half a second for a
   * connection: later it takes effect with the reconnect, which fires `onInterrupted`. The result ends the
   * subscription.
   */
  subscribe(channel: string, listener: (message: string) => void): Promise<() => Promise<void>>;
  onInterrupted(listener: () => void): () => void;
  /** Whether messages seem to be flowing. */
  readonly isConnected: boolean;
  /** Messages since the start that are known not to have been sent. */
  readonly lost: number;
  /** Stops everything; nothing is delivered afterwards. */
  close(): Promise<void>;
}
