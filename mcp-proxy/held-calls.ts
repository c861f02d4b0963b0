import type { GuardSetup, PassedDecision } from '../clients/node/src/guard.ts';
import { reportEnd } from '../clients/node/src/settle.ts';
import type { JsonObject } from '../shared/crypto/json-object.ts';
import type { ToolSettlement } from './settlements.ts';

/** Reports what calls came to whose amount is held (contract §19). */
export class CallReports {
  readonly #setup: GuardSetup;
  readonly #open = new Set<Promise<void>>();

  constructor(setup: GuardSetup) {
    this.#setup = setup;
  }

  send(call: HeldCall, ended: 'served' | 'failed' | 'left', answer: JsonObject): void {
    const { settle, decision } = call;
    const report = reportEnd(this.#setup, { settle }, decision, { request: null, answer, ended });
    this.#open.add(report);
    void report.finally(() => this.#open.delete(report));
  }

  /** Resolves when no report is under way. Each has a deadline. */
  async sent(): Promise<void> {
    await Promise.all(this.#open);
  }
}

/** A call with a PERMIT that holds its amount. */
export interface HeldCall {
  readonly decision: PassedDecision;
  readonly settle: ToolSettlement;
}
