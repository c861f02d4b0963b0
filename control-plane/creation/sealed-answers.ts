import { resealedToken } from '../http/answer-secrets.ts';
import { countOf, type SealedPlace } from '../master-key/sealed-place.ts';
import { answerSealContext } from './idempotent-answers.ts';

/** As JSON.stringify writes the one member of an answer that is sealed. */
const member = '"jwt":"';

/** Tokens in stored answers, which are kept for a day. */
export const sealedAnswers: SealedPlace = {
  name: 'tokens in stored answers',
  findOthers: async (sql, { prefix, after, limit }) => {
    const [afterCaller = '', afterKey = ''] = after ?? [];
    const rows = await sql<{ callerId: string; idempotencyKey: string; body: string }[]>`
      SELECT key_id AS "callerId", idempotency_key AS "idempotencyKey", body FROM idempotent_answers
      WHERE strpos(body, ${member}) > 0 AND strpos(body, ${member + prefix}) = 0
        AND (key_id, idempotency_key) > (${afterCaller}, ${afterKey})
      ORDER BY key_id, idempotency_key LIMIT ${limit}`;
    return rows.map(({ callerId, idempotencyKey, body }) => ({
      key: [callerId, idempotencyKey],
      replace: async (reseal) => {
        const context = answerSealContext({ callerId, idempotencyKey });
        const by = resealedToken(body, (sealed) => reseal(sealed, context));
        const { count } = await sql`
          UPDATE idempotent_answers SET body = ${by}
          WHERE key_id = ${callerId} AND idempotency_key = ${idempotencyKey} AND body = ${body}`;
        return count > 0;
      },
    }));
  },
  count: async (sql, prefix) =>
    countOf(
      await sql`
        SELECT count(*) AS count FROM idempotent_answers WHERE strpos(body, ${member + prefix}) > 0`,
    ),
};
