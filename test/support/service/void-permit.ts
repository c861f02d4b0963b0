import { appendRecords } from '../../../control-plane/attestations/append-records.ts';
import { keepBook } from '../../../control-plane/book/post.ts';
import { voidSettlements } from '../../../control-plane/decisions/void-settlements.ts';
import type { AttestationId } from '../../../shared/model/ids.ts';
import type { Api } from './api.ts';

/** As where the answer of a PERMIT reached nobody: its record gets one after it, and its units go back. */
export async function voidPermit({ deps }: Api, id: string): Promise<void> {
  await deps.sql.begin(async (tx) => {
    const nowMs = deps.clock.now();
    const unknown = [{ id: id as AttestationId, took: [], amountMicroUsd: null }];
    const by = { source: 'control-plane', sourceAccount: null, nowMs } as const;
    await keepBook(tx, nowMs, async (book) => {
      await appendRecords(tx, deps, await voidSettlements(tx, deps, book, unknown, by));
    });
  });
}
