import { describe, expect, it } from 'vitest';
import { toApiError } from '../../../../control-plane/http/error-reply.ts';
import { InvariantError } from '../../../../shared/errors/assert.ts';

const withCode = (code: string, more: object = {}) =>
  Object.assign(new Error('secret detail'), { code, ...more });
const postgresError = (code: string) => Object.assign(withCode(code), { name: 'PostgresError' });

describe('toApiError', () => {
  it.each([
    ['CONNECTION_CLOSED', 'service_unavailable'],
    ['ECONNREFUSED', 'service_unavailable'],
    ['SOMETHING_ELSE', 'internal_error'],
  ])('of the driver: %s is %s', (code, answered) => {
    expect(toApiError(withCode(code)).code).toBe(answered);
  });

  it.each([
    ['08006', 'service_unavailable'],
    ['57P01', 'service_unavailable'],
    ['25006', 'service_unavailable'],
    ['57014', 'overloaded'],
    ['40P01', 'overloaded'],
    ['55P03', 'overloaded'],
    ['23505', 'internal_error'],
  ])('of PostgreSQL: %s is %s', (code, answered) => {
    expect(toApiError(postgresError(code)).code).toBe(answered);
  });

  it('distinguishes the missing socket of the database from a missing file', () => {
    expect(toApiError(withCode('ENOENT', { syscall: 'connect' })).code).toBe('service_unavailable');
    expect(toApiError(withCode('ENOENT', { syscall: 'open' })).code).toBe('internal_error');
  });

  it.each([
    ['FST_ERR_BAD_URL', 400, 'invalid_request'],
    ['FST_ERR_REP_ALREADY_SENT', 500, 'internal_error'],
    ['OTHER', 400, 'internal_error'],
  ])('of the framework: %s with %d is %s', (code, statusCode, answered) => {
    expect(toApiError(withCode(code, { statusCode })).code).toBe(answered);
  });

  it.each([
    new InvariantError('secret detail'),
    new TypeError('secret detail'),
    'secret detail',
    null,
    undefined,
  ])('answers internal_error to %s', (thrown) => {
    expect(toApiError(thrown).code).toBe('internal_error');
  });

  it('never passes a foreign message on', () => {
    for (const error of [withCode('ECONNREFUSED'), postgresError('23505'), withCode('FST_ERR_BAD_URL')]) {
      expect(toApiError(error).message).not.toContain('secret detail');
    }
  });
});
