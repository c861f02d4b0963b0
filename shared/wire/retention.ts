import { Type } from 'typebox';
import { limits } from '../model/limits.ts';
import { closed, nullable, Timestamp } from './fields.ts';

/** `PUT /attestations/retention` */
export const RetentionUpdate = closed({
  days: nullable(Type.Integer({ minimum: limits.retentionDaysMin, maximum: limits.retentionDaysMax })),
});

/** `GET /attestations/retention` */
export const RetentionAnswer = Type.Object({
  days: nullable(Type.Integer()),
  archived_before: nullable(Timestamp),
});
