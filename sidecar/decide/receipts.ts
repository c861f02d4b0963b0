import { signTurn } from '../../shared/attestation/decision-receipt.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import {
  type DecisionReceipt,
  type ReceiptStatement,
  receiptFormat,
  receiptTurnMax,
} from '../../shared/wire/evidence/decision-receipt.ts';
import type { Receipt } from '../../shared/wire/sync/receipt.ts';
import type { Spool } from '../attest/spool.ts';
import type { ReceiptKey } from '../replica/receipt-key.ts';

export interface ReceiptsDeps {
  readonly key: Pick<ReceiptKey, 'certified' | 'mayIssueAt' | 'untilMsAt'>;
  readonly spool: Pick<Spool, 'whenDurable'>;
  /** The last place of the history that this sidecar was told. */
  readonly history: () => Receipt | null;
  readonly logger: Logger;
}

interface Asked {
  readonly statement: ReceiptStatement;
  /** Null: the record may not be on disk. */
  readonly onSigned: (receipt: DecisionReceipt | null) => void;
}

/**
 * Receipts for the answers that ask for them (contract §9): one signature for all of a turn of the event
 * loop. They are signed after the code that answers, and nothing else runs in between: a PERMIT that is
 * settled is answered, and never found late. A record in the spool is waited for until the disk has it.
 */
export class Receipts {
  readonly #deps: ReceiptsDeps;
  /** Since the start. `uncertified`: requests that were refused for it; `lost`: the disk failed. */
  readonly counts = { issued: 0, uncertified: 0, lost: 0 };
  #durable: Asked[] = [];
  #written: Asked[] = [];

  constructor(deps: ReceiptsDeps) {
    this.#deps = deps;
  }

  /** Throws where none can be issued: then nothing is decided either. */
  refuseUncertified(nowMs: UnixMillis): void {
    if (this.#deps.key.mayIssueAt(nowMs)) return;
    this.counts.uncertified += 1;
    throw new ApiError('service_unavailable', {
      message:
        'This sidecar can issue no receipts: the control plane has not certified its key. Ask without request.receipt, or try again shortly.',
    });
  }

  /** Up to when receipts can be issued as things are; null: none can now. */
  certifiedUntil(nowMs: UnixMillis): UnixMillis | null {
    return this.#deps.key.untilMsAt(nowMs);
  }

  /** `isSpooled`: its record is in the spool of this sidecar; else it is committed. */
  issue(statement: ReceiptStatement, isSpooled: boolean, onSigned: Asked['onSigned']): void {
    const asked = { statement, onSigned };
    if (!isSpooled) {
      if (this.#durable.push(asked) === 1) queueMicrotask(() => this.#sign(this.#durable.splice(0)));
    } else if (this.#written.push(asked) === 1) queueMicrotask(() => this.#waitForDisk());
  }

  #waitForDisk(): void {
    const all = this.#written.splice(0);
    this.#deps.spool.whenDurable((outcome) => {
      if (outcome === 'durable') this.#sign(all);
      else for (const { onSigned } of all) this.#tell(onSigned, null);
    });
  }

  #sign(all: readonly Asked[]): void {
    const { signer, certificate } = must(this.#deps.key.certified, 'a receipt is issued by a certified key');
    const history = historyOf(this.#deps.history());
    for (let first = 0; first < all.length; first += receiptTurnMax) {
      const some = all.slice(first, first + receiptTurnMax);
      const signed = signTurn(
        signer,
        some.map(({ statement }) => statement),
      );
      for (const [at, { onSigned }] of some.entries())
        this.#tell(onSigned, {
          format: receiptFormat,
          ...must(signed[at], 'each statement has its receipt'),
          certificate,
          history,
        });
    }
  }

  /** Isolates callbacks: one that fails must not keep others from their answers. */
  #tell(onSigned: Asked['onSigned'], receipt: DecisionReceipt | null): void {
    this.counts[receipt === null ? 'lost' : 'issued'] += 1;
    try {
      onSigned(receipt);
    } catch (error) {
      this.#deps.logger.error({ err: error }, 'an answer with a receipt failed');
    }
  }
}

const historyOf = (told: Receipt | null): DecisionReceipt['history'] =>
  told === null ? null : { text: told.text, mac: told.mac };
