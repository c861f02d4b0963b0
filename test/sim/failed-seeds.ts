/**
 * Seeds that failed once, each with what was wrong. They are played first. A seed plays something else once
 * plan, course or model change: what it found has a test of its own.
 */
export const failedSeeds: readonly { readonly seed: bigint; readonly found: string }[] = [
  { seed: 4n, found: 'approvals and keys of passports in wallets that no sidecar could settle' },
  { seed: 107n, found: 'a keyed request beyond a wallet of another account that was never told so' },
  {
    seed: 72n,
    found: 'a record that names a wallet below the one that paid, by a sidecar that has not seen a move',
  },
  { seed: 1_123n, found: 'a record of a passport in no wallet that names one, after it was moved twice' },
  {
    seed: 3_582n,
    found: 'a record that names a frozen wallet, by a sidecar that has not seen a move into it',
  },
  { seed: 853n, found: 'bytes of a failed write, back after a power cut in place of what was answered' },
  { seed: 145n, found: 'of this simulation: a power cut while a process stood still, before it could sync' },
  { seed: 9_958n, found: 'units of a PERMIT that was voided after the leases of its sidecar had gone' },
  { seed: 7_169n, found: 'of this simulation: a late lease call of an epoch that had ended made a holder' },
];
