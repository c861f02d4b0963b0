import { Type } from 'typebox';
import { limits } from '../../model/limits.ts';
import { closed, nullable, Timestamp } from './fields.ts';
import { readOnly } from './read-only.ts';

/** Moves by itself. */
const archived = { archived_before: nullable(Timestamp) };

/** `PUT /attestations/retention` */
export const RetentionUpdate = closed({
  days: nullable(Type.Integer({ minimum: limits.retentionDaysMin, maximum: limits.retentionDaysMax })),
  /** Absent: as it is. Null: as long as the records. */
  facts_days: Type.Optional(nullable(Type.Integer({ minimum: 1, maximum: limits.retentionDaysMax }))),
  ...readOnly(archived),
});

/** `GET /attestations/retention` */
export const RetentionAnswer = Type.Object({
  days: nullable(Type.Integer()),
  facts_days: nullable(Type.Integer()),
  ...archived,
});
