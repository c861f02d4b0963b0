/**
 * Room `control-plane/receipts`: receipts that clients show (contract §9): whether their records are here,
 * and whether the history that they remember is.
 */

import { receiptFaults, verifyReceipt } from '../../shared/attestation/decision-receipt.ts';
import { keyset } from '../../shared/crypto/keyset.ts';
import { invalidRequest } from '../../shared/errors/api-error.ts';
import type { Attestation } from '../../shared/model/attestation.ts';
import { type AccountId, type AttestationId, isId } from '../../shared/model/ids.ts';
import { modes } from '../../shared/model/mode.ts';
import { hourMs, parseTime } from '../../shared/model/time.ts';
import type {
  DecisionReceipt,
  ReceiptReport,
  ReceiptStatement,
} from '../../shared/wire/evidence/decision-receipt.ts';
import { archivedBefore, monthBegins } from '../attestations/archive-store.ts';
import { timeOfId } from '../attestations/id-uuid.ts';
import { findAttestation } from '../attestations/list-attestations.ts';
import { type OnRegressed, takeReport } from '../history/take-report.ts';
import type { LineBudget } from '../http/line-budget.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { findRevokedKey } from '../signing-keys/sidecar-key-store.ts';

/**
 * Log lines about receipts whose records are not as they say, for each account that shows them: 20 an hour
 * are enough to find out what is wrong, for a record that is missing stays so. 1,000 accounts take 100 KB.
 */
export const receiptLines = { linesMax: 20, perMs: hourMs, keysMax: 1_000 };

export type ReceiptDeps = Pick<
  SigningDeps,
  'sql' | 'sealer' | 'ed25519' | 'signingKeys' | 'clock' | 'logger'
>;

/** A receipt, and the account of the key that shows it. */
interface ShownReceipt {
  readonly receipt: DecisionReceipt;
  readonly shownBy: AccountId;
}

/**
 * Where the history went back behind what the sidecar was told, that is known from now on (contract §17): the
 * receipt carries it under a MAC of this service, so nobody makes it up. Throws `invalid_request` for a
 * receipt that does not verify.
 */
export async function takeReceipt(
  deps: ReceiptDeps & { readonly lines: LineBudget<AccountId> },
  { receipt, shownBy }: ShownReceipt,
  onRegressed: OnRegressed,
): Promise<ReceiptReport> {
  const keys = keyset(deps.ed25519, deps.signingKeys.all());
  const { kid } = receipt.certificate;
  const revoked = new Set((await findRevokedKey(deps.sql, kid)) === null ? [] : [kid]);
  const verdict = verifyReceipt(receipt, { ed25519: deps.ed25519, keys, revoked });
  if (verdict.kind === 'invalid')
    throw invalidRequest('receipt', `receipt does not verify: ${receiptFaults[verdict.fault]}.`);
  const { statement, certificate, history } = receipt;
  const accountId = certificate.account_id as AccountId;
  const told = { receipts: history === null ? [] : [history], entries: [] };
  const { state: known } = await takeReport(deps, accountId, told, onRegressed);
  const state = await stateOf(deps, accountId, statement);
  const leftOut = state === 'missing' || state === 'contradicted' ? deps.lines.take(shownBy) : null;
  if (leftOut !== null)
    deps.logger.error(
      {
        attestation_id: statement.attestation_id,
        sidecar_id: certificate.sidecar_id,
        state,
        ...(leftOut > 0 && { left_out: leftOut }),
      },
      'a receipt was shown whose record is not here as it says (docs/receipts.md)',
    );
  return { attestation_id: statement.attestation_id, state, history: known };
}

async function stateOf(
  { sql, clock }: ReceiptDeps,
  accountId: AccountId,
  statement: ReceiptStatement,
): Promise<ReceiptReport['state']> {
  const { attestation_id: id } = statement;
  if (!isId('att', id)) return 'missing';
  const record = await findOf(sql, accountId, id);
  if (record !== null) return isAsStated(record, statement) ? 'on_record' : 'contradicted';
  if (clock.now() <= (parseTime(statement.log_by) ?? 0)) return 'awaited';
  for (const mode of modes) {
    const before = await archivedBefore(sql, { accountId, mode });
    if (before !== null && timeOfId(id) < monthBegins(before)) return 'archived';
  }
  return 'missing';
}

/** The sidecar's account reads what its sidecar has written, in either mode. */
async function findOf(
  sql: ReceiptDeps['sql'],
  accountId: AccountId,
  id: AttestationId,
): Promise<Attestation | null> {
  for (const mode of modes) {
    const found = await findAttestation(sql, { accountId, mode }, id);
    if (found !== null) return found;
  }
  return null;
}

const isAsStated = (record: Attestation, statement: ReceiptStatement): boolean =>
  record.chainId === statement.chain_id &&
  record.gateId === statement.gate_id &&
  record.decision === statement.decision &&
  record.reason === statement.reason &&
  record.requestHash === statement.request_hash;
