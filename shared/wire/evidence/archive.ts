import { type Static, Type } from 'typebox';
import { closed, nullable } from '../api/fields.ts';

const ofAccount = { account_id: Type.String(), mode: Type.Enum(['live', 'test']) };

/** Of the command `attestations archive` alone, under `/v1/sync/archive`. */
export const ArchivePlanRequest = closed({
  before: Type.String(),
  /** `next` of the answer before; 0: from the first chain. */
  after: Type.Integer({ minimum: 0 }),
});

export const ArchivePlanAnswer = Type.Object({
  owners: Type.Array(
    Type.Object({
      ...ofAccount,
      chains: Type.Integer(),
      records: Type.Integer(),
    }),
  ),
  next: nullable(Type.Integer()),
  partitions: Type.Array(Type.String()),
  has_begun: Type.Boolean(),
});

export type ArchivePlanAnswer = Static<typeof ArchivePlanAnswer>;

/** Accounts whose records are older than they keep them, in pages. */
export const DueArchivesRequest = closed({ after: nullable(closed(ofAccount)) });

export const DueArchivesAnswer = Type.Object({
  due: Type.Array(Type.Object({ ...ofAccount, before: Type.String(), has_begun: Type.Boolean() })),
  next: nullable(Type.Object(ofAccount)),
});

export type DueArchivesAnswer = Static<typeof DueArchivesAnswer>;

/** What an archive of one account would hold, in pages by the ids of chains. */
export const AccountArchivePlanRequest = closed({
  ...ofAccount,
  before: Type.String(),
  after: Type.String(),
});

export const AccountArchivePlanAnswer = Type.Object({
  chains: Type.Integer(),
  records: Type.Integer(),
  next: nullable(Type.String()),
});

export type AccountArchivePlanAnswer = Static<typeof AccountArchivePlanAnswer>;

export const AccountArchiveRequest = closed({
  ...ofAccount,
  before: Type.String(),
  /** In the verified file. */
  records: Type.Integer({ minimum: 0 }),
});

export const AccountArchiveAnswer = Type.Object({
  state: Type.Enum(['marking', 'removing', 'done']),
  marked: Type.Integer(),
  removed: Type.Integer(),
});

export type AccountArchiveAnswer = Static<typeof AccountArchiveAnswer>;

export const ArchiveExportQuery = Type.Object({
  before: Type.String(),
  ...ofAccount,
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
