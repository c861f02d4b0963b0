import { type Static, Type } from 'typebox';
import { closed, nullable } from './fields.ts';

/** Of the command `attestations archive` alone, under `/v1/sync/archive`. */
export const ArchivePlanRequest = closed({
  before: Type.String(),
  /** `next` of the answer before; 0: from the first chain. */
  after: Type.Integer({ minimum: 0 }),
});

export const ArchivePlanAnswer = Type.Object({
  owners: Type.Array(
    Type.Object({
      account_id: Type.String(),
      mode: Type.Enum(['live', 'test']),
      chains: Type.Integer(),
      records: Type.Integer(),
    }),
  ),
  next: nullable(Type.Integer()),
  partitions: Type.Array(Type.String()),
  has_begun: Type.Boolean(),
});

export type ArchivePlanAnswer = Static<typeof ArchivePlanAnswer>;

export const ArchiveExportQuery = Type.Object({
  before: Type.String(),
  account_id: Type.String(),
  mode: Type.Enum(['live', 'test']),
});

export const ArchiveRequest = closed({
  before: Type.String(),
  /** In all verified files together. */
  records: Type.Integer({ minimum: 0 }),
  files: Type.Integer({ minimum: 0 }),
});

export const ArchiveAnswer = Type.Object({
  state: Type.Enum(['marking', 'dropping', 'waiting', 'done']),
  marked: Type.Integer(),
  partitions: Type.Array(Type.String()),
});

export type ArchiveAnswer = Static<typeof ArchiveAnswer>;
