import { InvariantError } from '../../shared/errors/assert.ts';
import { type AuthzenVocabulary, noVocabulary } from '../../shared/model/authzen-vocabulary.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { parseVocabulary, renderVocabulary, Vocabulary } from '../../shared/wire/api/authzen-vocabulary.ts';
import { shapeReader } from '../../shared/wire/api/shape.ts';
import type { Database, Transaction } from '../base/database.ts';

const read = shapeReader(Vocabulary);

/** Rows were validated before they were written: an unreadable one is an InvariantError. */
function toVocabulary(stored: unknown): AuthzenVocabulary {
  try {
    return parseVocabulary(read(stored));
  } catch (cause) {
    throw new InvariantError('the stored AuthZEN vocabulary can be read', { cause });
  }
}

export async function readVocabulary(
  sql: Database | Transaction,
  { accountId, mode }: Owner,
): Promise<AuthzenVocabulary> {
  const [row] = await sql<{ vocabulary: unknown }[]>`
    SELECT vocabulary FROM authzen_vocabularies WHERE account_id = ${accountId} AND mode = ${mode}`;
  return row === undefined ? noVocabulary : toVocabulary(row.vocabulary);
}

/** Resolves to what it was. Changes of one account and mode wait for each other. */
export async function writeVocabulary(
  tx: Transaction,
  { accountId, mode }: Owner,
  vocabulary: AuthzenVocabulary,
): Promise<AuthzenVocabulary> {
  // An empty one is inserted first, so that two first writers wait for each other, too.
  await tx`
    INSERT INTO authzen_vocabularies (account_id, mode, vocabulary)
    VALUES (${accountId}, ${mode}, ${JSON.stringify(renderVocabulary(noVocabulary))}::text::jsonb)
    ON CONFLICT (account_id, mode) DO NOTHING`;
  const [row] = await tx<{ vocabulary: unknown }[]>`
    SELECT vocabulary FROM authzen_vocabularies WHERE account_id = ${accountId} AND mode = ${mode} FOR UPDATE`;
  await tx`
    UPDATE authzen_vocabularies SET vocabulary = ${JSON.stringify(renderVocabulary(vocabulary))}::text::jsonb
    WHERE account_id = ${accountId} AND mode = ${mode}`;
  return row === undefined ? noVocabulary : toVocabulary(row.vocabulary);
}
