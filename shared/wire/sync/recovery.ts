import { type Static, Type } from 'typebox';
import { closed } from '../api/fields.ts';
import { SealedEntry, SignedSnapshot } from './sync-schema.ts';

/** `POST /v1/sync/history/state`: a state that a sidecar has set aside, as it lies on its disk. */
export const KnownStateReport = Type.Object({
  signed: SignedSnapshot,
  entries: Type.Array(SealedEntry),
});

/** `POST /v1/sync/history/recover`, of the command alone (contract §17). */
export const RecoveryRequest = closed({
  /** False: only say what would be done. */
  apply: Type.Boolean(),
  /** Gates of which a later policy was in force go on with the one in the database. */
  keep_older_gates: Type.Optional(Type.Boolean()),
});

const Ends = Type.Array(
  Type.Object({
    kind: Type.Enum([
      'passport',
      'owner',
      'unnamed',
      'issuer',
      'federation',
      'account',
      'gate',
      'api_key',
      'gate_policy',
    ]),
    id: Type.String(),
    account_id: Type.String(),
    standing: Type.Enum(['suspended', 'revoked', 'deleted', 'changed']),
  }),
);

export const RecoveryAnswer = Type.Object({
  generation: Type.String(),
  state: Type.Enum(['whole', 'regressed']),
  applied: Type.Boolean(),
  taken_back: Ends,
  by_hand: Ends,
  lost: Type.Array(
    Type.Object({
      chain_id: Type.String(),
      after_sequence: Type.Integer(),
      last_sequence: Type.Integer(),
      records: Type.Integer(),
    }),
  ),
  /** Of the transparency log: what its witnesses hold and the database lacks. */
  lost_trees: Type.Array(
    Type.Object({
      witness: Type.String(),
      origin: Type.String(),
      size: Type.Integer(),
      root: Type.String(),
      entries: Type.Integer(),
    }),
  ),
  /** Once history is whole: what the last recovery stated as lost, and how much of it has come back since. */
  handed_in: Type.Array(
    Type.Object({ chain_id: Type.String(), lost: Type.Integer(), handed_in: Type.Integer() }),
  ),
});
export type RecoveryAnswer = Static<typeof RecoveryAnswer>;
