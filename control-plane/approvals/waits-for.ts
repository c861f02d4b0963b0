import type { UserId } from '../../shared/model/ids.ts';
import type { Database } from '../base/database.ts';

/** Who may be waited for: a person, an API key, or a caller that may not answer at all. */
export type Answerer =
  | {
      readonly kind: 'person';
      readonly userId: UserId;
      /** All who count as one person with this one. */
      readonly allOne: readonly string[];
    }
  | { readonly kind: 'key' | 'none' };

/** `whyNotToAnswer` in SQL, for pending approvals. */
export function waitsForAnswerOf(sql: Database, answerer: Answerer) {
  switch (answerer.kind) {
    case 'none':
      return sql`false`;
    case 'key':
      return sql`EXISTS (
        SELECT FROM gates g WHERE g.gate_id = approvals.gate_id AND g.constraints #> '{approvals,approvers}' IS NULL
          AND (g.constraints #> '{approvals,passkey}') IS DISTINCT FROM 'true'::jsonb)`;
    default: {
      const { userId, allOne } = answerer;
      return sql`EXISTS (
        SELECT FROM gates g JOIN users u ON u.account_id = g.account_id AND u.user_id = ${userId},
          LATERAL (SELECT g.constraints #> '{approvals,approvers}' AS rule) approvers
        WHERE g.gate_id = approvals.gate_id
          AND u.confirmed_at_ms IS NOT NULL AND u.accepted_at_ms <= approvals.created_at_ms
          AND ((g.constraints #> '{approvals,passkey}') IS DISTINCT FROM 'true'::jsonb
            OR EXISTS (SELECT FROM passkeys p WHERE p.user_id = u.user_id))
          AND (rule IS NULL OR (
          (rule -> 'roles' IS NULL AND rule -> 'users' IS NULL OR rule -> 'roles' ? u.role OR rule -> 'users' ? u.user_id)
          AND ((rule -> 'not_requester' = 'false'::jsonb AND (rule -> 'not_owner') IS DISTINCT FROM 'true'::jsonb)
            OR (requesters IS NOT NULL AND NOT u.user_id = ANY(requesters)))))
          AND NOT EXISTS (
            SELECT FROM approval_answers a
            WHERE a.approval_id = approvals.approval_id AND a.undone_at_ms IS NULL AND (a.user_id = ${userId}
              OR (rule -> 'independent' = 'true'::jsonb AND a.user_id = ANY(${[...allOne]}::text[])))))`;
    }
  }
}
