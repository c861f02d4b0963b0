import type { PersonsAnswer } from '../../shared/model/approval.ts';
import type { ApprovalId, UserId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { AnswerProof } from '../../shared/wire/evidence/answer-proof.ts';
import type { Database, Transaction } from '../base/database.ts';

/** Adds the answers that stand, by a statement of its own: it sees what committed before a lock was given. */
export async function withAnswers<Row extends { readonly approvalId: ApprovalId }>(
  sql: Database | Transaction,
  rows: readonly Row[],
): Promise<readonly (Row & { readonly answers: readonly PersonsAnswer[] })[]> {
  if (rows.length === 0) return [];
  const ids = rows.map(({ approvalId }) => approvalId);
  const found = await sql<(PersonsAnswer & { readonly approvalId: ApprovalId })[]>`
    SELECT approval_id AS "approvalId", user_id AS "userId", answer, at_ms AS "atMs", note,
      assertion IS NOT NULL AS "isSigned", invited_by AS "invitedBy"
    FROM approval_answers WHERE approval_id = ANY(${ids}::text[]) AND undone_at_ms IS NULL
    ORDER BY approval_id, place`;
  const answers = new Map<ApprovalId, PersonsAnswer[]>();
  for (const { approvalId, ...answer } of found) {
    const own = answers.get(approvalId);
    if (own === undefined) answers.set(approvalId, [answer]);
    else own.push(answer);
  }
  return rows.map((row) => ({ ...row, answers: answers.get(row.approvalId) ?? [] }));
}

export async function withOwnAnswers<Row extends { readonly approvalId: ApprovalId }>(
  sql: Database | Transaction,
  row: Row,
): Promise<Row & { readonly answers: readonly PersonsAnswer[] }> {
  const [approval] = await withAnswers(sql, [row]);
  return { ...row, answers: approval?.answers ?? [] };
}

/** The approval must be locked. */
export async function insertAnswer(
  tx: Transaction,
  approvalId: ApprovalId,
  { userId, answer, atMs, note, invitedBy }: PersonsAnswer,
  proof: AnswerProof | null,
): Promise<void> {
  const assertion = proof === null ? null : JSON.stringify(proof);
  await tx`
    INSERT INTO approval_answers (approval_id, place, user_id, answer, at_ms, note, assertion, invited_by)
    SELECT ${approvalId}, count(*) + 1, ${userId}, ${answer}, ${atMs}, ${note}, ${assertion}::text::jsonb, ${invitedBy}
    FROM approval_answers WHERE approval_id = ${approvalId}`;
}

/** The proofs of all answers of the approval, of those taken back too. */
export async function readProofs(
  sql: Database | Transaction,
  approvalId: ApprovalId,
): Promise<readonly StoredProof[]> {
  return sql<StoredProof[]>`
    SELECT user_id AS "userId", assertion AS proof, undone_at_ms IS NULL AS "doesStand" FROM approval_answers
    WHERE approval_id = ${approvalId} AND assertion IS NOT NULL ORDER BY place`;
}

export interface StoredProof {
  readonly userId: UserId;
  readonly proof: AnswerProof;
  readonly doesStand: boolean;
}

/** The answer stays on record and stands no longer. The approval must be locked. */
export async function writeTakenBack(
  tx: Transaction,
  approvalId: ApprovalId,
  userId: UserId,
  nowMs: UnixMillis,
): Promise<void> {
  await tx`
    UPDATE approval_answers SET undone_at_ms = ${nowMs}
    WHERE approval_id = ${approvalId} AND user_id = ${userId} AND undone_at_ms IS NULL`;
}
