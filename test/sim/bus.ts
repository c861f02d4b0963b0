import type { Bus } from '../../shared/bus/bus.ts';
import { type Process, theLoop } from './loop.ts';
import type { Network } from './network.ts';

interface Listener {
  readonly process: Process;
  readonly channel: string;
  readonly onMessage: (text: string) => void;
}

/** Pub/sub as Redis has it: what is published reaches those who listen at that moment, or nobody. */
export class SimulatedBus {
  isDown = false;
  readonly #network: Network;
  #listeners: Listener[] = [];
  #doubters: { readonly process: Process; readonly onInterrupted: () => void }[] = [];

  constructor(network: Network) {
    this.#network = network;
  }

  publish(channel: string, text: string): void {
    if (this.isDown) return;
    for (const listener of this.#listeners) {
      const delayMs = this.#network.travelMs();
      const isCut = this.#network.cutOf(listener.process.machine.name) !== 'none';
      if (listener.channel !== channel || !listener.process.isAlive || isCut || delayMs === null) continue;
      const sentAtMs = theLoop().nowMs;
      theLoop().schedule(listener.process, delayMs, 'io', () => {
        listener.process.heardAtMs = Math.max(listener.process.heardAtMs, sentAtMs);
        if (this.#listeners.includes(listener)) listener.onMessage(text);
      });
    }
  }

  /** It is back: its clients know that they may have missed something. */
  restart(): void {
    this.isDown = false;
    this.#listeners = this.#listeners.filter(({ process }) => process.isAlive);
    this.#doubters = this.#doubters.filter(({ process }) => process.isAlive);
    for (const { process, onInterrupted } of this.#doubters)
      theLoop().schedule(process, 1, 'io', onInterrupted);
  }

  clientOf(process: Process): Bus {
    return {
      publish: async (channel: string, text: string) => this.publish(channel, text),
      subscribe: async (channel: string, onMessage: (text: string) => void) => {
        const listener = { process, channel, onMessage };
        this.#listeners.push(listener);
        return async () => {
          this.#listeners = this.#listeners.filter((each) => each !== listener);
        };
      },
      onInterrupted: (onInterrupted: () => void) => {
        const doubter = { process, onInterrupted };
        this.#doubters.push(doubter);
        return () => {
          this.#doubters = this.#doubters.filter((each) => each !== doubter);
        };
      },
      close: async () => undefined,
    } as unknown as Bus;
  }
}
