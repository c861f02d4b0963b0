import { type Static, Type } from 'typebox';
import { renderOptionalTime } from '../../shared/model/time.ts';
import { nullable } from '../../shared/wire/api/fields.ts';
import type { Database } from '../base/database.ts';
import { logStateOf } from './log-state.ts';

export const LogReadiness = Type.Object({
  /**
   * `unconfirmed`: no quorum of the witnesses has confirmed the tree since the writer started.
   * `regressed`: history went back, by what witnesses or sidecars show. Nothing is signed in either.
   */
  state: Type.Enum(['working', 'unconfirmed', 'regressed']),
  /** Null: no checkpoint yet. */
  origin: nullable(Type.String()),
  size: Type.Integer(),
  published_at: nullable(Type.String()),
  /** Of the newest checkpoint that the quorum of LOG_WITNESSES cosigned. */
  witnessed_size: Type.Integer(),
  witnessed_at: nullable(Type.String()),
  /** As the writer of the log heard from them last. `fault`: why it has not cosigned. */
  witnesses: Type.Array(
    Type.Object({
      name: Type.String(),
      fault: nullable(Type.String()),
      size: Type.Integer(),
      cosigned_at: nullable(Type.String()),
    }),
  ),
});

/** Of memory. */
export function logReadiness(sql: Database): Static<typeof LogReadiness> {
  const { published, witnesses, stop } = logStateOf(sql);
  return {
    state: stop ?? 'working',
    origin: published?.origin ?? null,
    size: published?.publishedSize ?? 0,
    published_at: renderOptionalTime(published?.publishedAtMs ?? null),
    witnessed_size: published?.witnessedSize ?? 0,
    witnessed_at: renderOptionalTime(published?.witnessedAtMs ?? null),
    witnesses: witnesses.map(({ witness, fault, size, cosignedAtMs }) => ({
      name: witness,
      fault,
      size,
      cosigned_at: renderOptionalTime(cosignedAtMs),
    })),
  };
}
