import type { AppendedRecord, PreparedProjection, Projection } from './attestations/deps.ts';
import { hintAtRecords } from './attestations/hint-at-records.ts';
import { countUse } from './attestations/use-counters.ts';
import { prepareSums } from './book/count-money.ts';
import { postUnits } from './book/lease-posts.ts';
import { keepHolds } from './outcomes/outcome-store.ts';
import { countDecisions } from './statistics/count-decisions.ts';
import { keepWalletChains } from './wallets/wallet-chain-store.ts';
import { emitDecisions } from './webhooks/emit-decisions.ts';

/**
 * Effects of each record, in lock order of the rows that many transactions share. Sums of money, the last of
 * these rows, and events are written after an answer.
 */
export const recordProjections: readonly (Projection | PreparedProjection)[] = [
  emitDecisions,
  async (tx, _deps, appended) => hintAtRecords(tx, appended),
  (tx, _deps, appended) => keepHolds(tx, appended),
  (tx, _deps, appended) => countUse(tx, counted(appended)),
  (tx, _deps, appended) => countDecisions(tx, appended),
  { prepare: prepareSums },
  (tx, _deps, appended) => keepWalletChains(tx, appended),
  (tx, _deps, appended) =>
    postUnits(
      tx,
      appended.map(({ attestation, took }) => ({ record: attestation, took })),
    ),
];

const counted = (appended: readonly AppendedRecord[]) =>
  appended.filter(({ counts }) => counts).map(({ attestation }) => attestation);
