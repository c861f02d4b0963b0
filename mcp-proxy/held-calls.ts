import { LRUCache } from 'lru-cache';
import type { GuardSetup, PassedDecision } from '../clients/node/src/guard.ts';
import { reportEnd } from '../clients/node/src/settle.ts';
import { isJsonObject, type JsonObject } from '../shared/crypto/json-object.ts';
import { proxyLimits } from './limits.ts';
import type { ToolSettlement } from './settlements.ts';

/** Reports what calls came to whose amount is held (contract §19). */
export class CallReports {
  readonly #setup: GuardSetup;
  readonly #open = new Set<Promise<void>>();

  constructor(setup: GuardSetup) {
    this.#setup = setup;
  }

  send(call: HeldCall, ended: 'served' | 'failed' | 'left', answer: JsonObject = {}): void {
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

/**
 * The held calls that wait for answers: of one exchange over HTTP, or of the client of a program. By the id
 * of the request, which its client chooses: of two with one id the first is forgotten, and its hold ends by
 * itself.
 */
export class HeldCalls {
  readonly #reports: CallReports;
  readonly #calls = new LRUCache<string | number, HeldCall>({ max: proxyLimits.openMethodsMax });

  constructor(reports: CallReports) {
    this.#reports = reports;
  }

  begin(id: unknown, call: HeldCall): void {
    if (typeof id === 'string' || typeof id === 'number') this.#calls.set(id, call);
  }

  /** An answer of the server. An error of any kind is `failed`, and so is one that asks for more input. */
  answered({ id, result }: JsonObject): void {
    if (typeof id !== 'string' && typeof id !== 'number') return;
    const call = this.#calls.get(id);
    if (call === undefined) return;
    this.#calls.delete(id);
    const isServed =
      isJsonObject(result) && result['isError'] !== true && !isJsonObject(result['inputRequests']);
    this.#reports.send(call, isServed ? 'served' : 'failed', isServed ? result : {});
  }

  /** No answer comes any more. */
  end(ended: 'failed' | 'left'): void {
    for (const call of this.#calls.values()) this.#reports.send(call, ended);
    this.#calls.clear();
  }
}
