import type { OutcomeReport } from './generated/api.ts';

/** How a guard has the amount held, and reports what it came to (contract §19). */
export interface Settlement<Request, Answer> {
  /** How long the amount is held. Default: as the gate has it. */
  readonly expiresInS?: number;
  /** What it came to, in USD, once the answer is complete; undefined: all that is held. */
  readonly amount?: (request: Request, answer: Answer) => number | undefined | Promise<number | undefined>;
  /** What is reported of a client that left before the answer was complete. Default `served`. */
  readonly clientLeft?: OutcomeReport['outcome'];
}

/** Called with the error of a report that did not arrive: its hold ends by itself. */
export type OnReportError = (error: unknown) => void;
