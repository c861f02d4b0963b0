import { ApiError } from '../../shared/errors/api-error.ts';
import { databaseFailure } from './database-away.ts';

/**
 * Whether a sweep failed because the database is unreachable or this replica stops, and not because of one of
 * the rows that it looked at.
 */
export const isOutage = (error: unknown): boolean =>
  error instanceof ApiError || databaseFailure(error) === 'service_unavailable';
