import { proxyLimits } from './limits.ts';

/** A message of the server that is larger than it may be. */
export class AnswerTooLarge extends Error {
  override readonly name = 'AnswerTooLarge';
}

/** Counts the messages of the server that are held at once: each has its bound, and all of them together. */
export class HeldBytes {
  readonly messageBytesMax: number;
  #bytes = 0;

  constructor(messageBytesMax: number) {
    this.messageBytesMax = messageBytesMax;
  }

  /** For one message, until `free`. */
  open(): { take(bytes: number): void; free(): void } {
    let own = 0;
    return {
      take: (bytes) => {
        own += bytes;
        this.#bytes += bytes;
        if (own > this.messageBytesMax) {
          throw new AnswerTooLarge(
            `The answer of the MCP server has more than ${this.messageBytesMax} bytes.`,
          );
        }
        if (this.#bytes > proxyLimits.heldAnswersBytesMax) {
          throw new AnswerTooLarge(
            'There are too many large answers of the MCP server at once. Try again later.',
          );
        }
      },
      free: () => {
        this.#bytes -= own;
        own = 0;
      },
    };
  }
}
